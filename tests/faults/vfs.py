"""A disk that fails on command: an ``apsw`` VFS over the real one, deterministic from its settings and a seed.

Every write, sync, truncation and deletion is one *operation*, numbered from 1. At a chosen number the disk can report
an error (once, or from then on), or lose its power. For the latter the shim keeps, per file, what is certainly on the
platter (all up to the file's last sync) and the list of changes since; after a cut each of those may have arrived, be
lost, or be torn at 512-byte sectors, independent of the others. The shared-memory file is no part of it: a restart
reads nothing from it.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import apsw

SECTOR_BYTES = 512
Operation = Literal["write", "sync", "truncate", "delete"]


class PowerCut(apsw.IOError):
    """What every operation meets once the power is gone. For SQLite it is an I/O error like any other."""


@dataclass
class Failure:
    """Operation number ``at`` fails with ``error``; with ``for_good`` all later ones do, too."""

    at: int
    error: type[apsw.Error]
    for_good: bool = False


@dataclass
class _Change:
    offset: int
    data: bytes | None
    """None is a truncation to ``offset``."""


@dataclass
class _Stored:
    platter: bytearray
    unsynced: list[_Change] = field(default_factory=list)
    ever_synced: bool = False


class Disk:
    """The state behind one ``FaultVFS``; one disk serves one run."""

    def __init__(self) -> None:
        self.operations = 0
        self.counts: dict[Operation, int] = {"write": 0, "sync": 0, "truncate": 0, "delete": 0}
        self.failure: Failure | None = None
        self.cut_at: int | None = None
        self.files: dict[str, _Stored] = {}

    def operate(self, kind: Operation) -> None:
        """Counts one operation, or raises instead of it."""
        self.operations += 1
        self.counts[kind] += 1
        if self.cut_at is not None and self.operations >= self.cut_at:
            raise PowerCut("the power is gone")
        failure = self.failure
        if failure and (self.operations == failure.at or (failure.for_good and self.operations > failure.at)):
            raise failure.error("injected")

    def opened(self, path: str) -> None:
        """What a file holds when first seen is taken as durable."""
        if path not in self.files:
            found = Path(path).read_bytes() if Path(path).exists() else b""
            self.files[path] = _Stored(bytearray(found), ever_synced=bool(found))

    def changed(self, path: str, offset: int, data: bytes | None) -> None:
        self.files[path].unsynced.append(_Change(offset, data))

    def synced(self, path: str) -> None:
        stored = self.files[path]
        for change in stored.unsynced:
            _apply(stored.platter, change.offset, change.data)
        stored.unsynced.clear()
        stored.ever_synced = True

    def after_cut(self, rng: random.Random) -> dict[str, bytes]:
        """What each file holds when the power is back. A file that was never synced may not be there at all."""
        images: dict[str, bytes] = {}
        for path, stored in self.files.items():
            if not stored.ever_synced and rng.random() < 0.5:
                continue
            image = bytearray(stored.platter)
            for change in stored.unsynced:
                for offset, data in _arrived(change, rng):
                    _apply(image, offset, data)
            images[path] = bytes(image)
        return images


def _arrived(change: _Change, rng: random.Random) -> Iterator[tuple[int, bytes | None]]:
    """The parts of a change that reached the platter: all, none, or some of its sectors."""
    fate = rng.random()
    if fate < 0.4:
        yield change.offset, change.data
    elif fate < 0.7 and change.data is not None:
        first = change.offset - change.offset % SECTOR_BYTES
        last = change.offset + len(change.data)
        for sector in range(first, last, SECTOR_BYTES):
            start, end = max(sector, change.offset), min(sector + SECTOR_BYTES, last)
            if rng.random() < 0.5:
                yield start, change.data[start - change.offset : end - change.offset]


def _apply(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


_numbers = itertools.count(1)


class FaultVFS(apsw.VFS):
    """Registers itself under ``name``. Keep a reference: SQLite forgets it with the last one."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.name = f"fault-{next(_numbers)}"
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "FaultFile":  # noqa: N802
        return FaultFile(name, flags, self.disk)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.disk.operate("delete")
        super().xDelete(filename, syncdir)
        self.disk.files.pop(filename, None)


class FaultFile(apsw.VFSFile):
    """One open file. Temporary files without a name pass unobserved."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], disk: Disk) -> None:
        self.disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        super().__init__("", name, flags)
        self.path = path
        if path is not None:
            disk.opened(path)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self.path is not None:
            self.disk.operate("write")
            self.disk.changed(self.path, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if self.path is not None:
            self.disk.operate("truncate")
            self.disk.changed(self.path, newsize, None)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.path is not None:
            self.disk.operate("sync")
        super().xSync(flags)
        if self.path is not None:
            self.disk.synced(self.path)
