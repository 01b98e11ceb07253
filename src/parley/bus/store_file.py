"""The file of a durable store: who may open it, what must be true of it, and every failure as one of the bus.

The file is locked for as long as it is open, by its inode and by a lock file beside it, before SQLite sees it. So the
second who opens it is refused before anything is read.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from parley.bus.admission import FINGERPRINT_BYTES, check_length
from parley.bus.rows import rows
from parley.core.bus_errors import (
    BusError,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreForeign,
    StoreLocked,
    StoreLost,
    StoreMigrationFailed,
    StoreTooNew,
    StoreUnavailable,
    StoreUnusable,
)
from parley.core.clock import Clock, iso
from parley.core.errors import (
    DatabaseCorrupt,
    FilesLost,
    MigrationFailed,
    ParleyError,
    SchemaTooNew,
    ServiceUnavailable,
    ShuttingDown,
    StartupFailed,
    WorkspaceUnsafe,
    WriterLockHeld,
)
from parley.core.files import PRIVATE_MODE
from parley.core.held_files import HeldFiles
from parley.core.writable import unusable
from parley.sqlite import apply_pragma, close_quietly, is_there, load_migrations, open_checked, open_reader, translate

APPLICATION_ID: Final = int.from_bytes(b"PBus", "big")
MIGRATIONS: Final = load_migrations("parley.bus")
_TOLD: Final[dict[type[ParleyError], type[StoreError]]] = {
    WriterLockHeld: StoreLocked,
    SchemaTooNew: StoreTooNew,
    MigrationFailed: StoreMigrationFailed,
    WorkspaceUnsafe: StoreUnusable,
    StartupFailed: StoreUnusable,
    DatabaseCorrupt: StoreDamaged,
    FilesLost: StoreLost,
    ServiceUnavailable: StoreUnavailable,
    ShuttingDown: StoreClosed,
}
_FOR_GOOD: Final = ("read_only", "cannot_open")
"""Reasons of ``ServiceUnavailable`` that another try does not change when a file is opened."""


class StoreIdentity(NamedTuple):
    """Whose store it is: the fingerprints of the agent's key and of its user's."""

    agent: bytes
    user: bytes


class StoreFile(NamedTuple):
    """An open file, and what keeps others away from it."""

    path: Path
    connection: apsw.Connection
    held: HeldFiles


def open_store_file(path: Path, identity: StoreIdentity, clock: Clock, vfs: str | None = None) -> StoreFile:
    """Opens the file, or makes it. Raises the ``StoreError`` that says why it cannot."""
    check_length("agent", identity.agent, FINGERPRINT_BYTES)
    check_length("user", identity.user, FINGERPRINT_BYTES)
    with told():
        try:
            real = path.resolve()
        except RuntimeError as error:
            raise StoreUnusable(f"{path} is a loop of links", path=str(path)) from error
        if not real.parent.is_dir():
            raise StoreUnusable(f"{real.parent} is not a folder", path=str(real.parent))
        held = HeldFiles(real.with_name(f"{real.name}.lock"))
        try:
            held.acquire({"pid": os.getpid(), "started_at": iso(clock.now_ms())})
            held.take(real)
            _make_private(real)
            return StoreFile(real, _open(real, identity, clock, vfs), held)
        except BaseException:
            held.release()
            raise


@contextmanager
def told() -> Generator[None]:
    """What fails in here is told as an error of the bus."""
    try:
        yield
    except BusError:
        raise
    except apsw.Error as error:
        raise as_bus_error(translate(error)) from error
    except OSError as error:
        raise StoreUnusable(f"The store cannot be used: {error}") from error
    except ParleyError as error:
        raise as_bus_error(error) from error


def as_bus_error(error: ParleyError) -> BusError:
    """The same failure in the bus's own tree, with its details."""
    if isinstance(error, BusError):
        return error
    kind = next((_TOLD[each] for each in type(error).__mro__ if each in _TOLD), StoreFailed)
    return kind(error.message, **error.details)


def _open(path: Path, identity: StoreIdentity, clock: Clock, vfs: str | None) -> apsw.Connection:
    _refuse_others(path, identity, vfs)
    try:
        connection = open_checked(path, MIGRATIONS, now_ms=clock.now_ms(), vfs=vfs)
    except ServiceUnavailable as error:
        if error.details["reason"] in _FOR_GOOD:
            raise StoreUnusable(error.message, path=str(path)) from error
        raise
    try:
        apply_pragma(connection, "secure_delete", 1)
        connection.execute("INSERT INTO identity VALUES (1, ?, ?) ON CONFLICT DO NOTHING", identity)
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def _refuse_others(path: Path, identity: StoreIdentity, vfs: str | None) -> None:
    """Raises before the file is opened for writing, which may migrate it, if it is not a store of this identity."""
    if not is_there(path):
        return
    try:
        reader = open_reader(path, vfs=vfs)
    except ParleyError:
        return  # it is damaged, which the writer says
    try:
        if rows(reader, "SELECT 1 FROM sqlite_schema") and rows(reader, "PRAGMA application_id") != [(APPLICATION_ID,)]:
            raise StoreUnusable(f"{path} is another database, and no store of a bus", path=str(path))
        if rows(reader, "SELECT 1 FROM sqlite_schema WHERE name = 'identity'"):
            _check_owner(reader, identity)
    except apsw.Error:
        return
    finally:
        close_quietly(reader)


def _check_owner(connection: apsw.Connection, identity: StoreIdentity) -> None:
    for values in rows(connection, "SELECT agent, user FROM identity"):
        if values != identity:
            agent, user = (each.hex()[:12] for each in values)
            raise StoreForeign(f"The store belongs to agent {agent} of user {user}", agent=agent, user=user)


def _make_private(path: Path) -> None:
    """SQLite gives the files beside it the mode of this one."""
    try:
        if path.stat().st_mode & 0o777 != PRIVATE_MODE:
            path.chmod(PRIVATE_MODE)
    except OSError as error:
        raise unusable(path, error) from error
