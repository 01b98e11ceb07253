"""The tables in which a member keeps its copies of rosters, what it made of them, and what it has compared."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from parley.core import untrusted_json
from parley.core.roster import Invite, State, Step, apply
from parley.core.roster.rules import Refusal
from parley.daemon.rosters.copy import Marks, RosterCopy

SNAPSHOT_ENTRIES: Final = 128
"""A snapshot is written when so many entries more are there: a start judges fewer than that."""
_ADD: Final = "INSERT OR REPLACE INTO roster_entry (mesh_id, n, hash, entry) VALUES (?, ?, ?, ?)"
_CUT: Final = "DELETE FROM roster_entry WHERE mesh_id = ? AND n > ?"
_HASHES: Final = "SELECT n, hash FROM roster_entry WHERE mesh_id = ? ORDER BY n"
_ENTRIES: Final = "SELECT entry FROM roster_entry WHERE mesh_id = ? AND n >= ? ORDER BY n LIMIT ?"
_SNAPSHOT: Final = "SELECT state FROM roster_snapshot WHERE mesh_id = ?"
_WRITE_SNAPSHOT: Final = "INSERT OR REPLACE INTO roster_snapshot (mesh_id, n, state) VALUES (?, ?, ?)"
_DROP_SNAPSHOT: Final = "DELETE FROM roster_snapshot WHERE mesh_id = ? AND n > ?"
_MARKS: Final = "SELECT marks FROM roster_marks WHERE mesh_id = ?"
_WRITE_MARKS: Final = "INSERT OR REPLACE INTO roster_marks (mesh_id, marks) VALUES (?, ?)"
_ADD_INVITE: Final = "INSERT OR REPLACE INTO roster_invite (mesh_id, id, invite, made_at) VALUES (?, ?, ?, ?)"
_INVITES: Final = "SELECT invite, made_at FROM roster_invite WHERE mesh_id = ? ORDER BY made_at, id"
_VERIFY: Final = "INSERT OR REPLACE INTO roster_verified (mesh_id, member_id, pubkey, verified_at) VALUES (?, ?, ?, ?)"
_VERIFIED: Final = "SELECT member_id, pubkey, verified_at FROM roster_verified WHERE mesh_id = ?"
_TABLES: Final = ("roster_entry", "roster_snapshot", "roster_marks", "roster_invite", "roster_verified")
_AT_ONCE: Final = 500


class Verified(NamedTuple):
    """A member's key whose safety number was compared, and when."""

    pubkey: str
    at_ms: int


class OwnInvite(NamedTuple):
    """An invite that the member has made, and when."""

    invite: Invite
    made_ms: int


def keep_entries(db: apsw.Connection, mesh_id: str, steps: Sequence[Step], *, fork: int | None = None) -> None:
    """Writes entries that were judged; those after ``fork`` give way to them."""
    if fork is not None:
        db.execute(_CUT, (mesh_id, fork))
        db.execute(_DROP_SNAPSHOT, (mesh_id, fork))
    for step in steps:
        db.execute(_ADD, (mesh_id, step.entry.n, step.entry.hash, step.data))
    if not steps:
        return
    last = steps[-1].state
    if last.n // SNAPSHOT_ENTRIES > max(0, steps[0].state.n - 1) // SNAPSHOT_ENTRIES:
        db.execute(_WRITE_SNAPSHOT, (mesh_id, last.n, msgspec.json.encode(last)))


def keep_marks(db: apsw.Connection, mesh_id: str, marks: Marks) -> None:
    """Writes what is known of the roster's end."""
    db.execute(_WRITE_MARKS, (mesh_id, msgspec.json.encode(marks).decode()))


def load_copy(db: apsw.Connection, mesh_id: str, copy: RosterCopy) -> None:
    """Takes up what was written. What does not add up is left to be read from the broker again."""
    rows: list[Any] = db.execute(_HASHES, (mesh_id,)).fetchall()
    hashes = [str(digest) for _, digest in rows]
    if [n for n, _ in rows] != list(range(len(rows))) or hashes[:1] not in ([], [copy.fingerprint]):
        return
    known = _snapshot(db, mesh_id)
    if known is not None and (known.n >= len(hashes) or hashes[known.n] != known.head):
        known = None
    state = _caught_up(db, mesh_id, known)
    if state is not None and state.head == hashes[-1]:
        copy.restore(state, hashes, _marks(db, mesh_id))


def read_entries(db: apsw.Connection, mesh_id: str, start: int, limit: int) -> list[bytes]:
    """Entries from a number on, so many at most."""
    rows: list[Any] = db.execute(_ENTRIES, (mesh_id, start, limit)).fetchall()
    return [bytes(entry) for (entry,) in rows]


def forget_roster(db: apsw.Connection, mesh_id: str) -> None:
    """The mesh is none of the member's any more."""
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE mesh_id = ?", (mesh_id,))


def add_invite(db: apsw.Connection, mesh_id: str, invite: Invite, *, now_ms: int) -> None:
    """Keeps an invite that the member has made."""
    db.execute(_ADD_INVITE, (mesh_id, invite.id, msgspec.json.encode(invite).decode(), now_ms))


def own_invites(db: apsw.Connection, mesh_id: str) -> list[OwnInvite]:
    """The invites that the member has made, the oldest first."""
    rows: list[Any] = db.execute(_INVITES, (mesh_id,)).fetchall()
    return [OwnInvite(msgspec.json.decode(text, type=Invite), int(made_at)) for text, made_at in rows]


def verify(db: apsw.Connection, mesh_id: str, member_id: str, pubkey: str, *, now_ms: int) -> None:
    """Remembers that a member's safety number was compared."""
    db.execute(_VERIFY, (mesh_id, member_id, pubkey, now_ms))


def verified(db: apsw.Connection, mesh_id: str) -> dict[str, Verified]:
    """Whose safety number was compared, and for which key."""
    rows: list[Any] = db.execute(_VERIFIED, (mesh_id,)).fetchall()
    return {str(member): Verified(str(pubkey), int(at_ms)) for member, pubkey, at_ms in rows}


def _snapshot(db: apsw.Connection, mesh_id: str) -> State | None:
    rows: list[Any] = db.execute(_SNAPSHOT, (mesh_id,)).fetchall()
    try:
        return msgspec.json.decode(rows[0][0], type=State) if rows else None
    except msgspec.DecodeError:
        return None


def _caught_up(db: apsw.Connection, mesh_id: str, state: State | None) -> State | None:
    while entries := read_entries(db, mesh_id, 0 if state is None else state.n + 1, _AT_ONCE):
        for entry in entries:
            after = apply(state, entry)
            if isinstance(after, Refusal):
                return None
            state = after
    return state


def _marks(db: apsw.Connection, mesh_id: str) -> Marks:
    rows: list[Any] = db.execute(_MARKS, (mesh_id,)).fetchall()
    try:
        return untrusted_json.decode(rows[0][0], Marks) if rows else Marks()
    except msgspec.DecodeError:
        return Marks()
