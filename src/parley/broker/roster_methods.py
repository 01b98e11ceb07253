"""The methods by which a roster is read and appended to: those of members, and of joiners who are none yet."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from parley.broker.done import Done
from parley.broker.rules.members import Member, lock_mesh
from parley.broker.rules.roster_append import append
from parley.broker.rules.roster_log import get_roster, page
from parley.broker.rules.roster_restore import confirm
from parley.broker.rules.roster_turns import Asker
from parley.broker.tx import Tx
from parley.core.broker_errors import NotAllowed
from parley.wire import mesh_methods as wire
from parley.wire.rosters import AppendEntries, ConfirmRoster, ReadRoster
from parley.wire.validation_errors import invalid

REPLACED: Final = frozenset(
    ("rotate_key", "leave", "revoke", "ban", "unban", "set_role", "create_invite", "revoke_invite")
)
"""Methods by which the broker decides who is a member; in a mesh with a roster an entry does."""


def _read(tx: Tx, mesh_id: str, asker: Asker, params: ReadRoster) -> Done:
    kept = get_roster(tx, mesh_id)
    entries = [each.decode() for each in page(tx, mesh_id, params.start, params.limit)]
    head = msgspec.to_builtins(kept.head)
    return Done({"entries": entries, "head": head, "restoring": kept.restoring})


def _append(tx: Tx, mesh_id: str, asker: Asker, params: AppendEntries) -> Done:
    return append(tx, mesh_id, asker, params.after, params.entries)


def _confirm(tx: Tx, caller: Member, params: ConfirmRoster) -> Done:
    return confirm(tx, caller.mesh_id, params.after, params.entries, params.confirmed)


def _as_member(handler: Callable[[Tx, str, Asker, Any], Done]) -> Callable[[Tx, Member, Any], Done]:
    return lambda tx, caller, params: handler(tx, caller.mesh_id, Asker(caller.member_id, caller.role), params)


_OF_ALL: Final[dict[str, Callable[[Tx, str, Asker, Any], Done]]] = {"roster_append": _append, "roster_read": _read}
HANDLERS: Final[dict[str, Callable[[Tx, Member, Any], Done]]] = {
    **{name: _as_member(handler) for name, handler in _OF_ALL.items()},
    "roster_confirm": _confirm,
}


@dataclass(frozen=True, slots=True)
class CallAsJoiner:
    """A request of somebody who bears an invite and is no member yet."""

    mesh_id: str
    pubkey: str
    method: str
    params: dict[str, Any] = field(hash=False)

    @property
    def locks_mesh(self) -> str | None:
        """Which mesh nobody else changes meanwhile."""
        return self.mesh_id if self.method == "roster_append" else None

    def __call__(self, tx: Tx) -> Done:
        handler = _OF_ALL.get(self.method)
        if handler is None:
            raise NotAllowed("Who is no member yet reads the roster and joins", role="", needed="member")
        try:
            params = wire.params_of(wire.METHODS[self.method], self.params)
        except msgspec.ValidationError as error:
            raise invalid(error, method=self.method) from None
        if self.locks_mesh is not None:
            lock_mesh(tx, self.mesh_id)
        return handler(tx, self.mesh_id, Asker(self.pubkey, None), params)._replace(mesh_id=self.mesh_id)
