"""What the files of agent programs were like before Parley was put into them, kept in the user's home.

Only the little that is needed to take ours out again is remembered, never a file's content: such files hold secrets.
"""

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import msgspec

from parley.core import untrusted_json
from parley.core.errors import SetupRefused
from parley.core.files import PRIVATE_MODE, write_atomic
from parley.programs.json_file import Facts

_FOLDER_MODE: Final = 0o700


class Before(msgspec.Struct, frozen=True):
    """One file as it was: see ``json_file.Facts``; and the folders that were made for it, outermost first."""

    facts: Facts
    folders: list[str] = []


class _RecordFile(msgspec.Struct, frozen=True):
    version: int = 1
    files: dict[str, Before] = {}


class Record:
    """``setup.json`` of one user."""

    def __init__(self, home: Path) -> None:
        self.path = home / "setup.json"

    def read(self) -> dict[str, Before]:
        """What is known of each file, by its path. Raises ``SetupRefused`` if the record is damaged."""
        try:
            return untrusted_json.decode(self.path.read_bytes(), _RecordFile).files
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise SetupRefused(f"{self.path} cannot be read: {error}", path=str(self.path)) from error

    def write(self, files: dict[str, Before]) -> None:
        """Replaces the record as a whole."""
        content = msgspec.json.encode(_RecordFile(1, dict(sorted(files.items()))))
        write_atomic(self.path, msgspec.json.format(content, indent=2) + b"\n")

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """One set-up at a time. The lock file is never removed."""
        self.path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path.with_name("setup.lock"), flags, PRIVATE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
