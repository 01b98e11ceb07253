"""Local sessions: programs on this machine that have said who they are.

A session is known by a token that its program made; only its digest is kept. It ends when it is taken back, when its
process is gone, or after a day. A number that was given to another process since is told apart by its start time.

A request that carries the token is the session's. Its mesh is meant where none is named; what it sends says which
session it comes from; and it is shown what is for it or for nobody in particular, not what is for other sessions. Who
sent and who is meant travels sealed, as a member of the message's metadata.
"""

import hashlib
import hmac
from pathlib import Path
from typing import Any, Final

import msgspec

from parley.core import untrusted_json
from parley.core.files import write_atomic
from parley.wire.daemon_requests import Register

MARK: Final = "parley_session"
"""The member of a message's metadata that tells of sessions; callers cannot set it."""
LIFETIME_MS: Final = 24 * 3_600_000


class SessionMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a message says of sessions: which one sent it, and which of the recipient's is meant."""

    id: str | None = None
    name: str | None = None
    role: str | None = None
    to: str | None = None


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
            found = untrusted_json.decode(self._path.read_bytes(), list[Session])
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

    def of(self, token: str, now_ms: int) -> Session | None:
        """The session with this token, unless it is over."""
        digest = _digest(token)
        found = next((each for name, each in self._sessions.items() if hmac.compare_digest(name, digest)), None)
        return None if found is None or _is_over(found, now_ms) else found

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


def addressed(meta: dict[str, Any], to: str | None) -> dict[str, Any]:
    """The metadata of a message to one session of its recipient."""
    return meta if to is None else {**meta, MARK: msgspec.to_builtins(SessionMark(to=to))}


def signed(meta: dict[str, Any], session: Session | None) -> dict[str, Any]:
    """The metadata of a message that a session sends."""
    if session is None:
        return meta
    mark = SessionMark(session.session_id, session.display_name or None, session.role, mark_of(meta).to)
    return {**meta, MARK: msgspec.to_builtins(mark)}


def unsigned(meta: dict[str, Any]) -> dict[str, Any]:
    """The metadata as the sender asked for it, before it was said which session that was."""
    return addressed({name: value for name, value in meta.items() if name != MARK}, mark_of(meta).to)


def mark_of(meta: dict[str, Any]) -> SessionMark:
    """What the metadata says of sessions. Another daemon made it, so what is not of the form says nothing."""
    try:
        return msgspec.convert(meta.get(MARK, {}), SessionMark)
    except msgspec.ValidationError:
        return SessionMark()


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
