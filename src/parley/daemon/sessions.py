"""Local sessions: programs on this machine that have said who they are.

A session is known by a token that its program made; only its digest is kept. It ends when it is taken back, when its
process is gone, or after a day. A number that was given to another process since is told apart by its start time.
"""

import hashlib
import hmac
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from parley.core.files import write_atomic

LIFETIME_MS: Final = 24 * 3_600_000
Token = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?![\s\S])")]


class Register(msgspec.Struct, frozen=True):
    """``POST /v1/sessions/register``"""

    token: Token
    session_id: Annotated[str, Meta(min_length=1, max_length=200)]
    display_name: Annotated[str, Meta(max_length=200)] = ""
    mesh: str | None = None
    pid: Annotated[int, Meta(ge=1)] | None = None
    cwd: Annotated[str, Meta(max_length=4096)] | None = None
    role: Annotated[str, Meta(max_length=200)] | None = None
    groups: Annotated[list[str], Meta(max_length=50)] = []


class Session(msgspec.Struct, frozen=True):
    """A session as it is kept and shown: without its token."""

    digest: str
    session_id: str
    display_name: str
    mesh: str | None
    pid: int | None
    pid_started: int | None
    cwd: str | None
    role: str | None
    groups: list[str]
    registered_at: int


class Sessions:
    """The registry, kept in a file so that a restart forgets nobody."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, Session] = {}

    def load(self) -> None:
        """Reads the file. One that is damaged is the same as none: programs register again."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=list[Session])
        except (OSError, msgspec.DecodeError):
            found = []
        self._sessions = {each.digest: each for each in found}

    def register(self, asked: Register, now_ms: int) -> Session:
        """Adds or renews a session."""
        session = Session(
            _digest(asked.token),
            asked.session_id,
            asked.display_name,
            asked.mesh,
            asked.pid,
            None if asked.pid is None else process_started(asked.pid),
            asked.cwd,
            asked.role,
            list(asked.groups),
            now_ms,
        )
        self._sessions[session.digest] = session
        self._write()
        return session

    def of(self, token: str) -> Session | None:
        """The session with this token."""
        digest = _digest(token)
        return next((each for name, each in self._sessions.items() if hmac.compare_digest(name, digest)), None)

    def end(self, token: str) -> bool:
        """Takes a session back. False when there was none."""
        ended = self._sessions.pop(_digest(token), None) is not None
        if ended:
            self._write()
        return ended

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def reap(self, now_ms: int) -> int:
        """Ends sessions that are too old or whose process is gone. How many."""
        gone = [name for name, each in self._sessions.items() if _is_over(each, now_ms)]
        for name in gone:
            del self._sessions[name]
        if gone:
            self._write()
        return len(gone)

    def _write(self) -> None:
        write_atomic(self._path, msgspec.json.encode(self.all()), durable=False)


def process_started(pid: int) -> int | None:
    """When the process began, in the kernel's ticks; None where that cannot be told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def _is_over(session: Session, now_ms: int) -> bool:
    if now_ms - session.registered_at > LIFETIME_MS:
        return True
    if session.pid is None or session.pid_started is None:
        return False
    return process_started(session.pid) != session.pid_started


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
