"""Whose plugins may run: what the user has seen and said yes to, kept in the user's home and not in the workspace.

A workspace can come with a cloned repository, so nothing in it can vouch for itself. Trust is a digest of its
``parley.toml`` and its modules; whatever changes one of them takes the trust away until somebody looks again.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from parley.core import untrusted_json
from parley.core.errors import ConfigInvalid, ServiceUnavailable
from parley.core.files import PRIVATE_MODE, write_atomic
from parley.workspace.plugins import Measured

HOME_VARIABLE: Final = "PARLEY_HOME"
_FOLDER_MODE: Final = 0o700
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Trusted(msgspec.Struct, frozen=True):
    """What was trusted in one workspace, and when."""

    digest: str
    trusted_at: str
    files: dict[str, str] = {}


class _TrustFile(msgspec.Struct, frozen=True):
    version: int = 1
    workspaces: dict[str, Trusted] = {}


def parley_home() -> Path:
    """Where things of the user that belong to no workspace are kept."""
    named = os.environ.get(HOME_VARIABLE)
    return Path(named) if named else Path.home() / ".parley"


class TrustStore:
    """``trust.json`` of one user."""

    def __init__(self, home: Path) -> None:
        self.path = home / "trust.json"

    def trusts(self, root: Path, digest: str) -> bool:
        """Whether the workspace was trusted exactly as it is now. A file that cannot be believed says no."""
        try:
            found = self.entries().get(str(root))
        except ConfigInvalid:
            return False
        return found is not None and found.digest == digest

    def entries(self) -> Mapping[str, Trusted]:
        """Every trusted workspace by its root. Raises ``ConfigInvalid`` if the file cannot be believed."""
        return self._read().workspaces

    def trust(self, root: Path, measured: Measured, now: str) -> Trusted:
        """Trusts the workspace as it was measured."""
        entry = Trusted(measured.digest, now, dict(measured.files))
        with self._locked():
            workspaces = {**self._read().workspaces, str(root): entry}
            self._write(workspaces)
        return entry

    def revoke(self, root: Path) -> bool:
        """Takes the trust away; returns whether there was any."""
        with self._locked():
            workspaces = dict(self._read().workspaces)
            there = workspaces.pop(str(root), None) is not None
            if there:
                self._write(workspaces)
        return there

    def _read(self) -> _TrustFile:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return _TrustFile()
        except OSError as error:
            raise self._unbelievable(f"cannot be read: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if about.st_uid != os.geteuid() or about.st_mode & _OTHERS_MAY_WRITE:
                raise self._unbelievable("can be written by somebody else")
            try:
                return untrusted_json.decode(file.read(), _TrustFile)
            except (OSError, msgspec.DecodeError) as error:
                raise self._unbelievable(f"is damaged: {error}") from error

    def _unbelievable(self, why: str) -> ConfigInvalid:
        error = ConfigInvalid(f"{self.path} {why}", path=str(self.path))
        error.hint = "Remove the file, then run `parley trust` in each workspace whose plugins you want to run."
        return error

    def _write(self, workspaces: Mapping[str, Trusted]) -> None:
        content = msgspec.json.encode(_TrustFile(1, dict(sorted(workspaces.items()))))
        write_atomic(self.path, msgspec.json.format(content, indent=2) + b"\n")

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """One writer at a time, so that no one's entry is lost. The lock file is never removed."""
        try:
            self.path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path.with_name("trust.lock"), flags, PRIVATE_MODE)
        except OSError as error:
            message = f"{self.path.parent} cannot be written: {error.strerror}"
            raise ServiceUnavailable(message, reason="cannot_open") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Which files differ from those that were trusted, in words."""
    found: list[str] = []
    for path in sorted(before.keys() | now.keys()):
        old, new = before.get(path, ""), now.get(path, "")
        if old != new:
            found.append(f"{path} {'is new' if not old else 'is gone' if not new else 'has changed'}")
    return found
