"""The members of a mesh as its roster has them, written where the broker looks for members.

Whom to let in, what to deliver to whom and who may send is asked of the same tables in every mesh. In one with a roster
nothing else writes to them, and they can be made anew from it.
"""

from collections.abc import Iterator
from typing import Final

from parley.broker.rules.members import Ending, stop_traffic
from parley.broker.tx import Tx
from parley.core.roster import Member, State

_STATES: Final = {"active": "active", "left": "left", "removed": "revoked", "banned": "banned", "expired": "left"}
_MEMBER: Final = (
    "INSERT INTO member (member_id, mesh_id, pubkey, display_name, role, state, joined_ms, ended_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (member_id) DO UPDATE SET pubkey = excluded.pubkey,"
    " display_name = excluded.display_name, role = excluded.role, state = excluded.state, ended_ms = excluded.ended_ms"
)
_KEY: Final = (
    "INSERT INTO member_key (mesh_id, pubkey, member_id, since_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (mesh_id, pubkey) DO UPDATE SET member_id = excluded.member_id"
)
_ENDINGS: Final[dict[str, Ending]] = {"left": "left", "expired": "left", "removed": "revoked", "banned": "banned"}


def write_members(tx: Tx, mesh_id: str, before: State | None, after: State) -> tuple[str, ...]:
    """Makes the members those of the state; whose membership has ended by it."""
    changed = list(_changed(before, after))
    tx.many(_MEMBER, [_row(mesh_id, member, tx.now_ms) for member in changed])
    tx.many(_KEY, [(mesh_id, key, owner, tx.now_ms) for key, owner in _new_keys(before, after)])
    were_active = () if before is None else frozenset(before.names.values())
    gone = [each for each in changed if not each.is_active and each.id in were_active]
    for member in gone:
        stop_traffic(tx, mesh_id, member.id, _ENDINGS[member.status])
    if before is None or before.epoch != after.epoch:
        tx.run("UPDATE mesh SET key_epoch = ? WHERE mesh_id = ?", after.epoch, mesh_id)
    return tuple(each.id for each in gone)


def differing_member(tx: Tx, mesh_id: str, state: State) -> str | None:
    """A member that is not written as the roster has it, or that the roster does not know."""
    columns = "member_id, pubkey, display_name, role, state"
    found = {row[0]: tuple(row) for row in tx.all(f"SELECT {columns} FROM member WHERE mesh_id = ?", mesh_id)}
    wanted = {
        each.id: (each.id, each.key, each.name, each.role, _STATES[each.status]) for each in state.members.values()
    }
    keys = dict(tx.all("SELECT pubkey, member_id FROM member_key WHERE mesh_id = ?", mesh_id))
    if keys != state.keys:
        return next(iter(sorted({*keys.items()} ^ {*state.keys.items()})))[1]
    return next((each for each in sorted({*found, *wanted}) if found.get(each) != wanted.get(each)), None)


def _changed(before: State | None, after: State) -> Iterator[Member]:
    for name, member in after.members.items():
        known = None if before is None else before.members.get(name)
        if known is not member and known != member:
            yield member


def _new_keys(before: State | None, after: State) -> Iterator[tuple[str, str]]:
    for key, owner in after.keys.items():
        if before is None or before.keys.get(key) != owner:
            yield key, owner


def _row(mesh_id: str, member: Member, now_ms: int) -> tuple[object, ...]:
    ended_ms = None if member.is_active else now_ms
    return (
        member.id,
        mesh_id,
        member.key,
        member.name,
        member.role,
        _STATES[member.status],
        member.joined_at,
        ended_ms,
    )
