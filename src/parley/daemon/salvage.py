"""Saving what can be read of a damaged outbox, which is the only copy of what was promised to be sent.

The rows are copied into a new file beside the damaged one, and only a complete copy takes its place: until then the
damaged file stays where it is, and no daemon starts on it. A copy that is there while the outbox is not is complete,
so one that was cut short between the two renames is finished by the next call.
"""

from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from parley.core.clock import stamp
from parley.core.files import sync_folder
from parley.daemon.databases import PARTS, open_outbox, salvaged_outbox
from parley.sqlite import close_quietly, is_there

ROW_BYTES_MIN: Final = 100
"""Less than any row takes in the file: it bounds how far rows are looked for behind damage."""
_UNREADABLE: Final = (apsw.Error, UnicodeDecodeError)


class Salvaged(NamedTuple):
    """How many rows the new outbox has, whether there was more that could not be read, and where the old one is."""

    saved: int
    unreadable: bool
    set_aside: Path


def salvage(path: Path, *, now_ms: int) -> Salvaged | None:
    """Puts a new outbox in the place of a damaged one, with every row that can be read. None if there is no row at all
    to be had, since the file is gone: then the new one is empty."""
    copy = salvaged_outbox(path)
    if is_there(path):
        _remove(copy)
        aside = path.with_name(f"{path.name}.corrupt-{stamp(now_ms)}")
        saved, unreadable = _copy(path, copy, now_ms)
    elif is_there(copy):
        aside = max(path.parent.glob(f"{path.name}.corrupt-*Z"))
        saved, unreadable = _count(copy), True
    else:
        _remove(path)
        open_outbox(path, now_ms=now_ms).close()
        return None
    sync_folder(path.parent)
    for piece in _pieces(path):  # the file before its log: without its log it might pass for sound
        piece.rename(aside.with_name(aside.name + piece.name.removeprefix(path.name)))
    copy.rename(path)
    sync_folder(path.parent)
    return Salvaged(saved, unreadable, aside)


def _copy(path: Path, copy: Path, now_ms: int) -> tuple[int, bool]:
    """The number of rows that were copied, and whether others could not be read."""
    fresh = open_outbox(copy, now_ms=now_ms)
    names = [str(row[1]) for row in fresh.execute("PRAGMA table_info(outbox)").fetchall()]
    columns, marks = ", ".join(names), ", ".join("?" for _ in names)
    saved, unreadable = 0, False
    try:
        with fresh:
            for row in _rows(path, columns):
                if row is None:
                    unreadable = True
                    continue
                try:
                    fresh.execute(f"INSERT OR IGNORE INTO outbox ({columns}) VALUES ({marks})", row).fetchall()
                    saved += fresh.changes()
                except apsw.ConstraintError:  # it can be read, and says what no row says
                    unreadable = True
        fresh.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        close_quietly(fresh)
    return saved, unreadable


def _rows(path: Path, columns: str) -> Generator[tuple[Any, ...] | None]:
    """The rows from the first on and from the last back, as far as they can be read, and those between them one by
    one; None for whatever could not be read. The first column is the row's number."""
    select = f"SELECT {columns} FROM outbox NOT INDEXED"
    damaged = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    low, high = 0, sum(piece.stat().st_size for piece in _pieces(path)) // ROW_BYTES_MIN
    try:
        try:
            for row in _one_way(damaged.execute(f"{select} ORDER BY seq"), 1):
                low = row[0]
                yield row
            return
        except _UNREADABLE:
            yield None
        with suppress(*_UNREADABLE):
            for row in _one_way(damaged.execute(f"{select} WHERE seq > ? ORDER BY seq DESC", (low,)), -1):
                high = min(high, row[0])
                yield row
        for number in range(low + 1, high):
            with suppress(*_UNREADABLE):
                yield from damaged.execute(f"{select} WHERE seq = ?", (number,)).fetchall()
    finally:
        close_quietly(damaged)


def _one_way(rows: Iterable[tuple[Any, ...]], step: int) -> Generator[tuple[Any, ...]]:
    """The rows as long as their numbers go one way: damaged pages can lead in a circle."""
    last: int | None = None
    for row in rows:
        if last is not None and (row[0] - last) * step <= 0:
            raise apsw.CorruptError("the rows are not in order")
        last = row[0]
        yield row


def _count(path: Path) -> int:
    connection = open_outbox(path)
    try:
        return int(str(connection.execute("SELECT count(*) FROM outbox").fetchall()[0][0]))
    finally:
        close_quietly(connection)


def _remove(path: Path) -> None:
    for piece in _pieces(path):
        piece.unlink()


def _pieces(path: Path) -> list[Path]:
    """The database and its log, as far as they are there."""
    return [piece for part in PARTS if (piece := path.with_name(path.name + part)).exists()]
