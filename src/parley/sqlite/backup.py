"""A consistent copy of a database that is in use.

SQLite's backup interface copies some pages at a time and starts over when a writer got in between, so a busy database
could keep a slow copy busy forever. All the pages are therefore read inside one read transaction, which sees one moment
whatever is written meanwhile; between steps the interpreter is free for others. The copy appears under its name only
when it is complete and on disk.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw

from parley.core.errors import ServiceUnavailable
from parley.core.files import create_private, sync_folder, temporary_beside
from parley.sqlite.connect import close_quietly, open_reader
from parley.sqlite.faults import translate

PAGES_PER_STEP: Final = 256
"""1 MiB at the default page size: well under a millisecond of other threads' time."""


def backup_name(path: Path, label: str, now_ms: int) -> Path:
    """``db.sqlite3.20260204T233045123Z.before-v2.bak``: beside the database, sorting by time."""
    moment = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return path.with_name(f"{path.name}.{moment}{now_ms % 1000:03d}Z.{label}.bak")


def online_backup(
    source_path: Path, target_path: Path, *, on_progress: Callable[[int, int], None] | None = None
) -> None:
    """Copies the database to a new private file. ``on_progress`` is told pages done and pages in all.

    Raises ``ServiceUnavailable`` with reason ``exists`` rather than replace a file: a backup is never overwritten.
    """
    if target_path.exists():
        raise ServiceUnavailable(f"{target_path} exists already", reason="exists")
    temporary = temporary_beside(target_path)
    try:
        os.close(create_private(temporary))
        _copy(source_path, temporary, on_progress)
        _sync(temporary)
        temporary.rename(target_path)
    except apsw.Error as error:
        raise translate(error) from error
    except OSError as error:
        raise ServiceUnavailable(f"The backup could not be written: {error}", reason="io_error") from error
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target_path.parent)


def _copy(source_path: Path, temporary: Path, on_progress: Callable[[int, int], None] | None) -> None:
    source = open_reader(source_path)
    target: apsw.Connection | None = None
    try:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # a transaction begins with its first read
        target = apsw.Connection(str(temporary), flags=apsw.SQLITE_OPEN_READWRITE)
        target.execute("PRAGMA synchronous=OFF").fetchall()  # one fsync at the end makes it durable
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES_PER_STEP)
                if on_progress is not None:
                    on_progress(backup.page_count - backup.remaining, backup.page_count)
        # The copy says it is in WAL mode, which needs a second and a third file; a backup is better as one.
        target.execute("PRAGMA journal_mode=DELETE").fetchall()
    finally:
        close_quietly(target)
        close_quietly(source)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
