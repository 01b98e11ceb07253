"""Opening a database: every pragma is set in one place and read back, so a setting that did not take is an error.

The writer never checkpoints (``wal_autocheckpoint=0``): a commit that a caller waits for must not pay for copying the
log back into the database; ``Checkpointer`` does that from its own connection. ``mmap_size`` stays at its default,
since a mapped file turns an I/O error into a signal.
"""

import contextlib
import ctypes
import os
from pathlib import Path
from typing import Final, Literal

import apsw

from parley.core.errors import DatabaseCorrupt, ServiceUnavailable, StartupFailed
from parley.sqlite.faults import translate
from parley.sqlite.outdated_log import empty_if_outdated
from parley.sqlite.space import INCREMENTAL

Synchronous = Literal["full", "normal"]
Setting = str | int

BUSY_TIMEOUT_MS: Final = 5000
FILE_MODE: Final = 0o600
STATEMENT_CACHE_SIZE: Final = 256
"""More than the number of distinct statements of any of our parts, so that none is ever parsed twice."""
WRITER_CACHE_KIB: Final = 16 * 1024
READER_CACHE_KIB: Final = 4 * 1024

_SYNCHRONOUS_LEVEL: Final[dict[Synchronous, int]] = {"normal": 1, "full": 2}
_TEMP_STORE_MEMORY: Final = 2


def open_writer(
    path: Path,
    *,
    synchronous: Synchronous = "full",
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    vfs: str | None = None,
    gives_back: bool = False,
) -> apsw.Connection:
    """The one connection that writes. Creates the file, readable by its owner alone, if it does not exist.

    A file that is new and ``gives_back`` is made for ``give_back``; one that is there stays as it is until ``compact``.
    """
    pragmas: dict[str, Setting] = {
        "encoding": "UTF-8",  # first: it binds only while the file has no table
        "busy_timeout": busy_timeout_ms,
        "journal_mode": "wal",
        "synchronous": _SYNCHRONOUS_LEVEL[synchronous],
        "wal_autocheckpoint": 0,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "temp_store": _TEMP_STORE_MEMORY,
        "cache_size": -WRITER_CACHE_KIB,
    }
    try:
        _create_private(path)
    except OSError as error:
        raise ServiceUnavailable(f"{path}: {error.strerror}", reason="cannot_open") from error
    if vfs is None and not os.access(path, os.W_OK):  # SQLite would open it all the same, and refuse each write
        raise ServiceUnavailable(f"{path} may not be written", reason="read_only")
    return _open(str(path), apsw.SQLITE_OPEN_READWRITE, pragmas, vfs, gives_back=gives_back)


def open_reader(
    path: Path,
    *,
    immutable_fallback: bool = True,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    vfs: str | None = None,
) -> apsw.Connection:
    """A connection that cannot write, whether a hub runs or not.

    A WAL database needs a shared-memory file beside it. Where that can be neither opened nor made (a read-only mount,
    a folder of somebody else) the file is opened as immutable instead, unless a log with unmerged commits lies beside
    it: those would be invisible, and nothing may be left out in silence.
    """
    pragmas: dict[str, Setting] = {
        "busy_timeout": busy_timeout_ms,
        "query_only": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "temp_store": _TEMP_STORE_MEMORY,
        "cache_size": -READER_CACHE_KIB,
    }
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    address = path.absolute().as_uri()
    try:
        return _open(f"{address}?mode=ro", flags, pragmas, vfs)
    except ServiceUnavailable as refusal:
        if (
            not immutable_fallback
            or refusal.details["reason"] not in ("cannot_open", "read_only")
            or not path.is_file()
        ):
            raise
        if _has_unmerged_log(path):
            raise ServiceUnavailable(
                f"{path.name} has commits in its -wal file that cannot be read from a read-only folder; "
                "copy both files to a folder that can be written and read them there",
                reason="unmerged_wal",
            ) from refusal
        return _open(f"{address}?mode=ro&immutable=1", flags, pragmas, vfs)


def close_quietly(connection: apsw.Connection | None, *, leave_log: bool = False) -> None:
    """Closes a connection on a path where another error is already on its way; one that is closed stays so.

    The last one that closes moves the log into the database. ``leave_log`` keeps it from that: SQLite would move a hole
    where commits were as well, and destroy what was sound. A log that would do so when it is read again is emptied.
    """
    if connection is None:
        return
    log: Path | None = None
    moved_frames = 0
    with contextlib.suppress(apsw.Error):
        if leave_log:
            log = Path(connection.filename_wal)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if not _has_moved(connection):  # else the log at the path may be that of another database
                moved_frames = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[1]
    with contextlib.suppress(apsw.Error):
        connection.close()
    if log is not None:
        empty_if_outdated(log, moved_frames)


def _has_moved(connection: apsw.Connection) -> bool:
    """Whether the path names another file than the one that the connection has open."""
    moved = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    return bool(moved.value)


def apply_pragma(connection: apsw.Connection, name: str, value: Setting) -> None:
    """Sets one pragma and reads it back. Raises ``StartupFailed`` if it did not take."""
    literal = f"'{value}'" if isinstance(value, str) else str(value)
    connection.execute(f"PRAGMA {name}={literal}").fetchall()
    actual = connection.execute(f"PRAGMA {name}").fetchone()
    found: object = actual[0] if actual else None
    if found != value:
        raise StartupFailed(f"PRAGMA {name} is {found!r} where {value!r} was asked for", pragma=name, found=found)


def _open(
    target: str, flags: int, pragmas: dict[str, Setting], vfs: str | None, *, gives_back: bool = False
) -> apsw.Connection:
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(target, flags=flags, vfs=vfs, statementcachesize=STATEMENT_CACHE_SIZE)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        # One plan per statement, whatever is bound: otherwise each new value of a range or a limit plans it again.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if gives_back and connection.execute("PRAGMA page_count").fetchall() == [(0,)]:
            # Only a new file is told: to tell one that holds something is to write to it, damaged or not.
            connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}").fetchall()
        for name, value in pragmas.items():
            apply_pragma(connection, name, value)
        # The first read of the file: it finds a file that is no database, and a WAL that cannot be opened, here.
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error as error:
        close_quietly(connection)
        typed = translate(error)
        if isinstance(typed, DatabaseCorrupt):
            typed.details["path"] = target
        raise typed from error
    except StartupFailed:
        close_quietly(connection)
        raise
    return connection


def _create_private(path: Path) -> None:
    """An empty file is a valid empty database; SQLite gives its -wal and -shm the mode of the main file."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, FILE_MODE))


def _has_unmerged_log(path: Path) -> bool:
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except OSError:
        return False
