"""Where a feed left off, kept across restarts.

A cursor never runs ahead of the consumer: it moves to an event when the consumer asks for the one after it. So after a
crash the last event may come twice, and none is missed.
"""

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from parley.core import untrusted_json
from parley.core.clock import Clock, SystemClock
from parley.core.files import PRIVATE_MODE, sync_folder

_RECORD_BYTES: Final = 256
"""One record, padded; far below a disk's sector, and a torn one is found by its checksum anyway."""
_SYNC_SECONDS: Final = 1.0
"""How often the records are forced to disk. In between they survive the end of the process, not a power cut."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last event that was processed, and the database whose log it belongs to."""

    event_id: int
    db_id: str


class CursorStore(Protocol):
    """A place for one feed's cursor. ``save`` is called for every event, so it must be quick."""

    def load(self) -> Cursor | None:
        """The cursor that was saved last; None if there never was one."""
        ...

    def save(self, cursor: Cursor) -> None:
        """Replaces the cursor. After a crash ``load`` finds this one or an earlier one, never something else."""
        ...

    def close(self) -> None:
        """Makes the last cursor durable and lets go of the place. The feed calls it at its end."""
        ...


class _Record(msgspec.Struct, frozen=True):
    number: int
    event_id: int
    db_id: str


class FileCursor:
    """A cursor in a small file, cheap enough to be saved for every event.

    The file holds two records of fixed size that are overwritten in turn, each with a number and a checksum; the newest
    intact one counts. A write that a crash cut short thus costs one step, not the cursor.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._file: int | None = None
        self._number = 0
        self._synced_at = 0.0

    def load(self) -> Cursor | None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        newest = max(_intact_records(data), key=lambda record: record.number, default=None)
        if newest is None:
            return None
        self._number = newest.number
        return Cursor(newest.event_id, newest.db_id)

    def save(self, cursor: Cursor) -> None:
        if self._file is None:
            self._file = self._open()
        self._number += 1
        record = _render(_Record(self._number, cursor.event_id, cursor.db_id))
        os.pwrite(self._file, record, self._number % 2 * _RECORD_BYTES)
        now = self._clock.monotonic()
        if now - self._synced_at >= _SYNC_SECONDS:
            os.fsync(self._file)
            self._synced_at = now

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
        sync_folder(self._path.parent)
        self._synced_at = self._clock.monotonic() - _SYNC_SECONDS
        return descriptor


def _render(record: _Record) -> bytes:
    text = msgspec.json.encode(record)
    line = b"%08x %s" % (zlib.crc32(text), text)
    if len(line) >= _RECORD_BYTES:
        raise ValueError(f"a cursor of {len(line)} bytes does not fit")
    return line.ljust(_RECORD_BYTES - 1) + b"\n"


def _intact_records(data: bytes) -> list[_Record]:
    found: list[_Record] = []
    for start in range(0, len(data), _RECORD_BYTES):
        checksum, _, text = data[start : start + _RECORD_BYTES].rstrip().partition(b" ")
        if checksum == b"%08x" % zlib.crc32(text):
            with suppress(msgspec.MsgspecError):  # the checksum of nothing is zeros, which a file may well hold
                found.append(untrusted_json.decode(text, _Record))
    return found
