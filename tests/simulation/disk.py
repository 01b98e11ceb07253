"""A disk in memory under real SQLite, which loses power the way disks do.

A ``Disk`` holds the files of one node, each as two images: what the system shows its programs, and what is certainly
on the platter. Writes since a file's last sync are kept in a list; when the power goes, each of them may have arrived,
be lost, or be torn at 512-byte sectors, independent of the others. ``cut_after`` lets it go in the midst of a commit or
a checkpoint. A disk may also be full for a while.

A file in memory has no shared-memory sibling, so a database here is opened in SQLite's exclusive mode, with its log's
index on the heap; whatever else ``open_writer`` asks for stays. One connection at a time reads and writes a file.
"""

import itertools
import random
from dataclasses import dataclass, field

import apsw

SECTOR_BYTES = 512
_PREFIX = "simulated-disk-"
_numbers = itertools.count(1)


class PowerCut(apsw.IOError):
    """What every operation meets once the power is gone. For SQLite it is an I/O error like any other."""


@dataclass
class _Stored:
    shown: bytearray
    platter: bytearray
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Where, and what; None is a truncation to there."""
    ever_synced: bool = False


class Disk(apsw.VFS):
    """The files of one node. Keep a reference: SQLite forgets a VFS with the last one."""

    def __init__(self) -> None:
        self.name = f"{_PREFIX}{next(_numbers)}"
        super().__init__(self.name, "")
        self.operations = 0
        self.is_off = False
        self.is_full = False
        """Every write is refused, and nothing else is wrong."""
        self.cut_after: int | None = None
        """The power goes at this many writes and syncs from the disk's beginning."""
        self._files: dict[str, _Stored] = {}

    def switch_off(self) -> None:
        """From now on every operation fails, so that a connection can be let go without a last word."""
        self.is_off = True

    def start_again(self, rng: random.Random, *, torn: bool) -> None:
        """What is found after the end of a process, or, ``torn``, after that of its machine's power.

        No connection to any of the files may be open.
        """
        self.is_off, self.is_full, self.cut_after = False, False, None
        for path in sorted(self._files) if torn else ():
            stored = self._files[path]
            if not stored.ever_synced and rng.random() < 0.5:
                del self._files[path]
                continue
            for offset, data in stored.unsynced:
                _tear(stored.platter, offset, data, rng)
            stored.unsynced.clear()
            stored.shown = bytearray(stored.platter)

    def operate(self) -> None:
        """Counts one operation, or raises instead of it."""
        self.operations += 1
        if self.cut_after is not None and self.operations > self.cut_after:
            self.is_off = True
        if self.is_off:
            raise PowerCut("the power is gone")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_File":  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or f"temporary-{self.operations}"
        return _File(self, self._files.setdefault(path, _Stored(bytearray(), bytearray())))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return pathname in self._files

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.operate()
        self._files.pop(filename, None)


class _File:
    """One open file, as SQLite asks for it."""

    def __init__(self, disk: Disk, stored: _Stored) -> None:
        self._disk = disk
        self._stored = stored

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._disk.is_off:
            raise PowerCut("the power is gone")
        return bytes(self._stored.shown[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.operate()
        if self._disk.is_full:
            raise apsw.FullError("no space left")
        kept = bytes(data)
        _apply(self._stored.shown, offset, kept)
        self._stored.unsynced.append((offset, kept))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.operate()
        _apply(self._stored.shown, newsize, None)
        self._stored.unsynced.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.operate()
        stored = self._stored
        for offset, data in stored.unsynced:
            _apply(stored.platter, offset, data)
        stored.unsynced.clear()
        stored.ever_synced = True

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._stored.shown)

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xLock(self, level: int) -> None:  # noqa: N802
        """Nobody else is there."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Nobody else is there."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xClose(self) -> None:  # noqa: N802
        """The bytes stay."""


def _apply(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _tear(platter: bytearray, offset: int, data: bytes | None, rng: random.Random) -> None:
    """Lets what was not synced arrive wholly, not at all, or in some of its sectors."""
    fate = rng.random()
    if fate < 0.4:
        _apply(platter, offset, data)
    elif fate < 0.7 and data is not None:
        end = offset + len(data)
        for sector in range(offset - offset % SECTOR_BYTES, end, SECTOR_BYTES):
            start = max(sector, offset)
            if rng.random() < 0.5:
                _apply(platter, start, data[start - offset : min(sector + SECTOR_BYTES, end) - offset])


def _open_exclusively(connection: apsw.Connection) -> None:
    if connection.open_vfs.startswith(_PREFIX):
        connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()


apsw.connection_hooks.append(_open_exclusively)
