"""The token that lets a caller in: kept in a file that only its owner can read, the same across restarts.

After a rotation the token before it stays valid for a while, so that running clients can read the file again. The
grace period belongs to the running server: a restart ends it. Another process rotates by writing the file; the server
notices in ``reload`` and grants the same grace. A file that is gone or emptied while the server runs is written again.

The token is also a key: ``sign`` and ``verify`` let a server hand out what it will recognise later, without a table of
what it handed out. A signature ends with the token that made it.

Neither ``repr`` nor any error or warning of this module holds a token.
"""

import hmac
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

from parley.core.clock import Clock
from parley.core.errors import WorkspaceUnsafe
from parley.core.files import write_atomic
from parley.core.ids import new_token
from parley.core.signing import sign
from parley.core.writable import unusable

_FILE_MODE: Final = 0o600
_READING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Not blocking, since a pipe in the file's place would be waited for."""
_READ_BYTES_MAX: Final = 4_096
_FORM: Final = re.compile(rb"[!-~]{32,1024}")
"""Ours has 64 hexadecimal characters; one that a person chose must be as hard to guess and fit a header."""


class Reloaded(NamedTuple):
    """What a look at the file brought."""

    changed: bool
    warnings: tuple[str, ...] = ()


class TokenStore:
    """The current token, and those before it that are still in their grace period."""

    def __init__(self, path: Path, clock: Clock, grace_seconds: float) -> None:
        self.path = path
        self._clock = clock
        self.grace_seconds = grace_seconds
        self._current = b""
        self._previous: tuple[tuple[bytes, float], ...] = ()
        self._signature: tuple[int, int, int] | None = None
        self._unreadable = False

    def __repr__(self) -> str:
        return f"TokenStore({str(self.path)!r})"

    @property
    def current(self) -> str:
        """The token that new clients get."""
        return self._current.decode("ascii")

    def load(self) -> tuple[str, ...]:
        """Reads the token, or makes one; returns warnings. Raises ``WorkspaceUnsafe`` if the file is of no use."""
        try:
            token, warnings = self._read_or_make()
        except OSError as error:
            raise unusable(self.path, error) from error
        if token is None:
            raise WorkspaceUnsafe(
                f"{self.path} holds no usable token: remove it, and the next start writes a new one",
                path=str(self.path),
            )
        self._current = token
        return warnings

    def matches(self, candidate: bytes | str) -> bool:
        """Whether the candidate is a valid token. How long this takes tells nothing about the tokens."""
        if isinstance(candidate, str):
            candidate = candidate.encode("utf-8", "surrogatepass")
        if hmac.compare_digest(candidate, self._current):
            return self._current != b""
        return self._previous != () and self._matches_previous(candidate)

    def sign(self, purpose: bytes, data: bytes) -> bytes:
        """A signature of the data that only a holder of the token can make; valid for this purpose alone."""
        return sign(self._current, purpose, data)

    def verify(self, purpose: bytes, data: bytes, signature: bytes) -> bool:
        """Whether ``sign`` made this signature with a token that is still valid."""
        found = hmac.compare_digest(signature, sign(self._current, purpose, data))
        for token in self._alive_previous():
            found |= hmac.compare_digest(signature, sign(token, purpose, data))
        return found and self._current != b""

    def rotate(self) -> None:
        """Writes a new token; the one before it stays valid for the grace period."""
        write_atomic(self.path, f"{new_token()}\n".encode("ascii"), _FILE_MODE)
        self.reload()

    def reload(self) -> Reloaded:
        """Takes over a token that was written to the file since. A file of no use changes nothing but is warned of."""
        try:
            found = self.path.lstat()
            if self._signature == _signature(found):
                return Reloaded(False)
            if _is_empty(found):
                return self._restore()
            token, warnings = self._read()
        except FileNotFoundError:
            return self._restore()
        except OSError as error:
            return self._warned(f"Cannot read the token in {self.path}: {error.strerror}; it stays as it was")
        self._unreadable = False
        if token is None:
            return Reloaded(False, (*warnings, f"{self.path} holds no usable token; it stays as it was"))
        if token == self._current:
            return Reloaded(False, warnings)
        now = self._clock.monotonic()
        alive = tuple(entry for entry in self._previous if entry[1] > now and entry[0] != token)
        self._previous = (*alive, (self._current, now + self.grace_seconds))
        self._current = token
        return Reloaded(True, warnings)

    def write_again(self) -> None:
        """Puts the token back into its file, for those who look for it there. Raises ``OSError``."""
        write_atomic(self.path, self._current + b"\n", _FILE_MODE)
        self._read()

    def _restore(self) -> Reloaded:
        try:
            self.write_again()
        except OSError as error:
            return self._warned(f"{self.path} is gone and cannot be written again: {error.strerror}")
        self._unreadable = False
        return Reloaded(False, (f"{self.path} was gone, and was written again",))

    def _warned(self, problem: str) -> Reloaded:
        """A problem that stays is told of once."""
        told, self._unreadable = self._unreadable, True
        return Reloaded(False, () if told else (problem,))

    def _matches_previous(self, candidate: bytes) -> bool:
        found = False
        for token in self._alive_previous():
            found |= hmac.compare_digest(candidate, token)
        return found

    def _alive_previous(self) -> list[bytes]:
        if not self._previous:
            return []
        now = self._clock.monotonic()
        self._previous = tuple(entry for entry in self._previous if entry[1] > now)
        return [token for token, _ in self._previous]

    def _read_or_make(self) -> tuple[bytes | None, tuple[str, ...]]:
        try:
            return self._read()
        except FileNotFoundError:
            write_atomic(self.path, f"{new_token()}\n".encode("ascii"), _FILE_MODE)
            return self._read()

    def _read(self) -> tuple[bytes | None, tuple[str, ...]]:
        """The token in the file, if it has the form of one, and what had to be put right."""
        descriptor = os.open(self.path, _READING)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                self._signature = _signature(status)
                return None, ()
            warnings = _fix_mode(descriptor, self.path)
            self._signature = _signature(os.fstat(descriptor))
            token = os.read(descriptor, _READ_BYTES_MAX).strip()
        finally:
            os.close(descriptor)
        return (token if _FORM.fullmatch(token) else None), warnings


def unusable_because(path: Path) -> str | None:
    """Why a start would refuse this file, or None; one that is not there is written by the next start."""
    try:
        descriptor = os.open(path, _READING)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    try:
        token = os.read(descriptor, _READ_BYTES_MAX).strip()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    finally:
        os.close(descriptor)
    return None if _FORM.fullmatch(token) else "holds no usable token"


def _signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _is_empty(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def _fix_mode(descriptor: int, path: Path) -> tuple[str, ...]:
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode == _FILE_MODE:
        return ()
    os.fchmod(descriptor, _FILE_MODE)
    return (f"{path} had mode {mode:04o} and could be read by others; it is 0600 now: consider `parley token rotate`",)
