"""Whose turn it is to append to a roster, when several want to at once.

Whoever comes too late is told what came before it, and gets the next place for two seconds, in which it can sign its
entry again: so nobody is overtaken for ever. Others wait behind it, admins first. A place in the line is kept for two
seconds after its owner was last heard of, so those who went away hold up nobody for longer, however many they are. A
promise that goes unused counts as an entry of whoever had it, and nobody is promised the same place twice.

Joiners are strangers yet. They share one line behind the members', and only every second place is promised to one of
them, once: the others are a member's who waits, or else whoever's comes first.
"""

from typing import Final, NamedTuple

from parley.broker.tx import Tx
from parley.core.roster import Role

PROMISE_MS: Final = 2_000
"""Long enough to fetch what is missing and to sign again over a slow line."""
UNUSED_MS: Final = 60_000
"""How long a promise that went unused counts."""
JOINERS_MAX: Final = 1_000
"""Joiners in a mesh's line, who can be as many as the bearers of an invite make up; more come back later."""
WAIT_MS_MIN: Final = 50
WAIT_MS_MAX: Final = 1_000
"""When to ask again: before the place in the line is lost."""
_ADMIN, _MEMBER, _JOINER = 0, 1, 2
_FIRST: Final = "author, rank, standing, until_ms"
_ALIVE: Final = "standing IN ('waiting', 'promised')"


class Asker(NamedTuple):
    """Who wants to append: a member by its id, or a joiner by its key."""

    name: str
    role: Role | None
    """None for a joiner."""

    @property
    def rank(self) -> int:
        if self.role is None:
            return _JOINER
        return _MEMBER if self.role == "member" else _ADMIN


class Turn(NamedTuple):
    """What somebody who has to wait is told: the next place is its own for so long, or when to ask again."""

    reserved_ms: int | None
    wait_ms: int | None


class _First(NamedTuple):
    """Who has the next place, or waits for it before all others."""

    name: str
    rank: int
    standing: str
    until_ms: int


def tidy(tx: Tx, mesh_id: str) -> None:
    """Ends what is over. A time that is too far ahead was written before the clock was set back."""
    now = tx.now_ms
    tx.run(
        "UPDATE roster_turn SET standing = 'unused', until_ms = until_ms + ? WHERE mesh_id = ?"
        " AND standing = 'promised' AND until_ms <= ?",
        *(UNUSED_MS, mesh_id, now),
    )
    tx.run(
        f"DELETE FROM roster_turn WHERE mesh_id = ? AND (until_ms <= ? OR until_ms > ? OR ({_ALIVE} AND until_ms > ?))",
        *(mesh_id, now, now + UNUSED_MS, now + PROMISE_MS),
    )


def is_free_for(tx: Tx, mesh_id: str, asker: Asker, *, n: int) -> bool:
    """Whether the place ``n``, which is the next, is nobody else's."""
    first = _first(tx, mesh_id, n)
    if first is None or first.name == asker.name:
        return True
    return first.standing == "waiting" and first.rank > asker.rank


def stand_in_line(tx: Tx, mesh_id: str, asker: Asker, *, n: int) -> Turn:
    """Keeps the asker a place in the line, and promises it the place ``n`` when it is first."""
    now = tx.now_ms
    _join_line(tx, mesh_id, asker, n)
    first = _first(tx, mesh_id, n)
    if first is not None and first.name == asker.name:
        if first.standing == "promised":
            return Turn(first.until_ms - now, None)
        tx.run(
            "UPDATE roster_turn SET standing = 'promised', place = ?, until_ms = ? WHERE mesh_id = ? AND author = ?",
            *(n, now + PROMISE_MS, mesh_id, asker.name),
        )
        return Turn(PROMISE_MS, None)
    wait = WAIT_MS_MIN if first is None else first.until_ms - now
    return Turn(None, min(WAIT_MS_MAX, max(WAIT_MS_MIN, wait)))


def leave_line(tx: Tx, mesh_id: str, asker: Asker) -> None:
    """The asker has appended."""
    tx.run("DELETE FROM roster_turn WHERE mesh_id = ? AND author = ?", mesh_id, asker.name)


def wasted_until(tx: Tx, mesh_id: str, asker: Asker) -> int | None:
    """Until when a promise that the asker did not use counts as an entry."""
    row = tx.one(
        "SELECT until_ms FROM roster_turn WHERE mesh_id = ? AND author = ? AND standing = 'unused'",
        *(mesh_id, asker.name),
    )
    return None if row is None else row[0]


def _first(tx: Tx, mesh_id: str, n: int) -> _First | None:
    """Whose the next place is; None if whoever comes first may have it."""
    promised = tx.one(f"SELECT {_FIRST} FROM roster_turn WHERE mesh_id = ? AND standing = 'promised'", mesh_id)
    if promised is not None:
        return _First(*promised)
    joiner_had_it = "SELECT 1 FROM roster_turn WHERE mesh_id = ? AND standing = 'unused' AND place = ? AND rank = ?"
    last = _MEMBER if n % 2 or tx.one(joiner_had_it, mesh_id, n, _JOINER) is not None else _JOINER
    waiting = tx.one(
        f"SELECT {_FIRST} FROM roster_turn WHERE mesh_id = ? AND standing = 'waiting' AND rank <= ?"
        " ORDER BY rank, number LIMIT 1",
        *(mesh_id, last),
    )
    return None if waiting is None else _First(*waiting)


def _join_line(tx: Tx, mesh_id: str, asker: Asker, n: int) -> None:
    """Who is in the line already keeps the number, and the two seconds of who waits begin anew."""
    until = tx.now_ms + PROMISE_MS
    known = tx.one("SELECT standing, place FROM roster_turn WHERE mesh_id = ? AND author = ?", mesh_id, asker.name)
    standing, place = ("", -1) if known is None else known
    if standing == "promised" or (standing == "unused" and place == n):
        return
    if standing == "waiting":
        tx.run(
            "UPDATE roster_turn SET until_ms = ?, rank = ? WHERE mesh_id = ? AND author = ?",
            *(until, asker.rank, mesh_id, asker.name),
        )
        return
    if asker.rank == _JOINER and _joiners(tx, mesh_id) >= JOINERS_MAX:
        return
    last = tx.one("SELECT COALESCE(max(number), 0) FROM roster_turn WHERE mesh_id = ?", mesh_id)
    tx.run(
        "INSERT INTO roster_turn (mesh_id, author, rank, number, place, standing, until_ms)"
        " VALUES (?, ?, ?, ?, ?, 'waiting', ?) ON CONFLICT (mesh_id, author) DO UPDATE SET rank = excluded.rank,"
        " number = excluded.number, place = excluded.place, standing = excluded.standing, until_ms = excluded.until_ms",
        *(mesh_id, asker.name, asker.rank, (last[0] if last else 0) + 1, n, until),
    )


def _joiners(tx: Tx, mesh_id: str) -> int:
    row = tx.one(f"SELECT count(*) FROM roster_turn WHERE mesh_id = ? AND rank = ? AND {_ALIVE}", mesh_id, _JOINER)
    return row[0] if row else 0
