"""The free space that a server's files live on: measured, and told in time.

A full disk is refused by each write that meets it. This is for the hours before: whoever watches learns that it is
coming, once, and once that it is over.
"""

import shutil
from pathlib import Path
from typing import Final, Literal, NamedTuple

FULL_BYTES: Final = 16 * 1024 * 1024
"""With less than this free the next writes are about to fail."""
_OVER_AT: Final = 1.1
"""So much more than the least must be free before a shortage is over: a disk at its edge is told of once."""

Level = Literal["ok", "low", "full"]


class Disk(NamedTuple):
    """A look at it."""

    free_bytes: int
    total_bytes: int

    @property
    def free_ratio(self) -> float:
        """The free share of it."""
        return self.free_bytes / max(1, self.total_bytes)


def look_at_disk(folder: Path) -> Disk:
    """The disk that a folder is on, or was on before it was removed. Raises ``OSError`` where nothing can be seen."""
    usage = shutil.disk_usage(next(place for place in (folder, *folder.absolute().parents) if place.exists()))
    return Disk(usage.free, usage.total)


def level_of(free_bytes: int, least_bytes: int, before: Level = "ok") -> Level:
    """How bad it is, given how bad it was."""
    if free_bytes < min(FULL_BYTES, least_bytes):
        return "full"
    needed = least_bytes if before == "ok" else least_bytes * _OVER_AT
    return "low" if free_bytes < needed else "ok"


class Look(NamedTuple):
    """How a disk is, and how bad that is."""

    disk: Disk
    level: Level
    least_bytes: int

    @property
    def problems(self) -> list[str]:
        """What is wrong, in words; nothing while there is room."""
        if self.level == "ok":
            return []
        word = "full" if self.level == "full" else "nearly full"
        return [f"the disk is {word}: {self.disk.free_bytes} bytes are free, {self.least_bytes} should be"]


class DiskWatch:
    """The disk of one folder, looked at now and then. ``least_bytes`` may be set anew; 0 is never too little."""

    def __init__(self, folder: Path, least_bytes: int) -> None:
        self._folder = folder
        self.least_bytes = least_bytes
        self.seen = Look(look_at_disk(folder), "ok", least_bytes)
        """The last look."""

    def now(self) -> Look:
        """How it is, for who only wants to know."""
        try:
            disk = look_at_disk(self._folder)
        except OSError:  # a folder that was closed, or is just being removed: its disk is what it was
            return self.seen
        return Look(disk, level_of(disk.free_bytes, self.least_bytes, self.seen.level), self.least_bytes)

    def look(self) -> bool:
        """Looks, and remembers it. Whether it is worse or better than at the last look."""
        before, self.seen = self.seen.level, self.now()
        return self.seen.level != before
