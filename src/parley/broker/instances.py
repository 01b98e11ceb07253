"""Which brokers serve from a folder: each holds a lock of its own there for as long as it lives, and says where it is.

A file is served by one broker, a PostgreSQL database by several, also from one folder. What a killed one left behind is
not locked, and is removed by whoever looks next.
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from parley.core import untrusted_json
from parley.core.errors import WriterLockHeld
from parley.core.instance_lock import InstanceLock, probe
from parley.serve.file_keeper import KeptFile

FOLDER: Final = "instances"


class Instance(msgspec.Struct, frozen=True):
    """A broker that serves."""

    pid: int
    instance_id: str
    started_at: str
    host: str
    port: int
    url: str
    tls: bool
    store: str
    """``sqlite`` or ``postgresql``; the address may hold a password."""
    tls_cert: str = ""
    """Its certificate's file, by which whoever asks it on this machine knows it."""
    path: str = ""
    """The file that it serves; empty for PostgreSQL."""


@contextmanager
def announced(folder: Path, instance: Instance) -> Generator[KeptFile]:
    """Says that the broker is there, until the end; the file to be written again when it is gone."""
    path = lock_of(folder, instance)
    with InstanceLock(path) as lock:

        def announce() -> None:
            lock.release()
            lock.acquire(msgspec.to_builtins(instance))

        kept = KeptFile(path, announce)
        kept.write()
        try:
            yield kept
        finally:
            with suppress(OSError):  # whoever looks next finds it free, and removes it
                path.unlink(missing_ok=True)


def refuse_announced(folder: Path, store: Path) -> None:
    """Raises ``WriterLockHeld`` if a broker that is announced in the folder serves this file."""
    for each in instances(folder):
        if each.path == str(store.absolute()):
            raise WriterLockHeld(
                f"{store} is served by process {each.pid} since {each.started_at}",
                pid=each.pid,
                instance_id=each.instance_id,
                started_at=each.started_at,
                path=each.path,
            )


def instances(folder: Path) -> list[Instance]:
    """Those that live, the oldest first."""
    found: list[Instance] = []
    for path in sorted((folder / FOLDER).glob("*.lock")):
        if probe(path) is None:
            path.unlink(missing_ok=True)
            continue
        with suppress(OSError, msgspec.DecodeError):  # it has just ended, or just begun
            found.append(untrusted_json.decode(path.read_bytes(), Instance))
    return sorted(found, key=lambda each: (each.started_at, each.instance_id))


def lock_of(folder: Path, instance: Instance) -> Path:
    """The file that the instance locks."""
    return folder / FOLDER / f"{instance.instance_id}.lock"
