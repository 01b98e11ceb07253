"""What a running server does about its files every second.

If it no longer holds what it writes to, it ends. What it only tells others by (where it listens, its token) is in its
memory as well, so a file of that kind that is gone is written again; that is worth one line in the log each time, and a
file that cannot be written is worth one line in all.
"""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from parley.core.errors import FilesLost, ParleyError
from parley.core.held_files import HeldFiles

LOOK_SECONDS: Final = 1.0


class KeptFile:
    """A file that ``write`` writes whole. What somebody else puts in its place stays: they may have a reason."""

    def __init__(
        self, path: Path, write: Callable[[], object], *, wanted: Callable[[], bool] = lambda: True, stays: bool = False
    ) -> None:
        """While it is not ``wanted``, there is nothing to be in it. One that ``stays`` outlives its server."""
        self.path = path
        self.stays = stays
        self._wanted = wanted
        self._write = write
        self._failed = False

    def write(self) -> None:
        """Writes it now."""
        self._write()

    def look(self) -> str | None:
        """Writes it if it is gone; what there is to say about it, if anything is new."""
        if not self._wanted() or _is_there(self.path):
            self._failed = False
            return None
        try:
            self.write()
        except (OSError, ParleyError) as error:
            said, self._failed = self._failed, True
            return None if said else f"it is gone and cannot be written again: {error}"
        self._failed = False
        return "it was gone, and was written again"


class FileKeeper:
    """One task of a server."""

    def __init__(self, held: HeldFiles | None, log: FilteringBoundLogger, on_lost: Callable[[FilesLost], None]) -> None:
        """``on_lost`` is called once, when a path no longer names what is ``held``."""
        self._held = held
        self._log = log
        self._on_lost = on_lost
        self._kept: list[KeptFile] = []

    def keep(self, *files: KeptFile) -> None:
        """Writes these again when they are gone, from now on."""
        self._kept += files

    async def run(self) -> None:
        """Looks every second until it is cancelled, or the files are lost."""
        while self.look():  # noqa: ASYNC110 - nothing tells of a file that is gone
            await asyncio.sleep(LOOK_SECONDS)

    def look_last(self) -> None:
        """The look of a server that is about to end: what stays may be gone since, and nobody else has it."""
        self._kept = [file for file in self._kept if file.stays]
        self.look()

    def look(self) -> bool:
        """One look. False when the files are lost, and it is over."""
        try:
            if self._held is not None:
                self._held.look()
        except FilesLost as lost:
            self._on_lost(lost)
            return False
        for file in self._kept:
            problem = file.look()
            if problem is not None:
                self._log.warning("file_gone", path=str(file.path), problem=problem)
        return True


def _is_there(path: Path) -> bool:
    """Whether there is anything at the path; of a socket there is no content to ask for."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_size > 0 or stat.S_ISSOCK(found.st_mode)
