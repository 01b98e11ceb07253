"""The transaction behind a hello: the member is one, with this key, and this connection is now its connection.

In a mesh with a roster a joiner is greeted, too: by an invite that is good as things are. It has no connection that
anybody else would know of.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from parley.broker.policy import Policy
from parley.broker.rules.audit import record
from parley.broker.rules.members import Member, Mesh, lock_mesh, member_with_key
from parley.broker.rules.presence import connect
from parley.broker.rules.roster_log import Kept, find_roster
from parley.broker.rules.roster_restore import note_told
from parley.broker.rules.roster_state import current_state
from parley.broker.tx import Tx
from parley.core.broker_errors import (
    AlreadyConnected,
    HelloRefused,
    InviteRefused,
    MembershipEnded,
    RosterRestoring,
    UpgradeNeeded,
)
from parley.core.roster import judge_invite
from parley.wire.broker import NEWEST_PROTOCOL, Hello
from parley.wire.rosters import RosterHello, RosterStanding

CONCURRENT: Final = "member_concurrent_connection"
CONCURRENT_EVERY_MS: Final = 3_600_000
"""So often a member's second daemon is told of at most: one that comes again and again must not fill the log."""


class Greeted(NamedTuple):
    """Who was greeted, and which connections this one replaces."""

    mesh: Mesh
    member: Member | None
    """None for a joiner."""
    replaced: tuple[str, ...] = ()
    refused: AlreadyConnected | None = None
    """Why the member was not let in after all; a value, since what the audit log says of it stays."""
    roster: RosterStanding | None = None


@dataclass(frozen=True, slots=True)
class Greet:
    """A hello whose signature was verified."""

    hello: Hello | RosterHello
    connection_id: str
    broker_instance: str
    policy: Policy
    age_ms: int = 0
    """How long ago the connection was opened."""

    @property
    def locks_mesh(self) -> str:
        """The mesh that the member says it is of."""
        return self.hello.mesh_id

    def __call__(self, tx: Tx) -> Greeted:
        hello = self.hello
        if tx.one("SELECT 1 FROM mesh WHERE mesh_id = ?", hello.mesh_id) is None:
            raise _unknown()
        mesh = lock_mesh(tx, hello.mesh_id)
        kept = find_roster(tx, mesh.mesh_id)
        if isinstance(hello, Hello):
            return self._greet_member(tx, mesh, upgrade_needed=kept is not None)
        if kept is None or kept.fingerprint != hello.fingerprint:
            raise _unknown()
        if hello.member_id is None:
            _check_joiner(tx, kept, hello)
            return Greeted(mesh, None, roster=_standing(kept))
        greeted = self._greet_member(tx, mesh)
        if hello.head is not None:
            kept = note_told(tx, kept, hello.head)
        return greeted._replace(roster=_standing(kept))

    def _greet_member(self, tx: Tx, mesh: Mesh, *, upgrade_needed: bool = False) -> Greeted:
        hello = self.hello
        member = member_with_key(tx, hello.mesh_id, hello.pubkey)
        if member is None or member.member_id != hello.member_id:
            raise _unknown()
        if member.state != "active":
            raise MembershipEnded("The member is no longer one of this mesh", reason=member.state)
        if member.pubkey != hello.pubkey:
            raise HelloRefused("The member has another key since", reason="rotated")
        if upgrade_needed:
            raise UpgradeNeeded("The mesh has a roster, of which this daemon knows nothing", protocol=NEWEST_PROTOCOL)
        others = _other_daemons(tx, member.member_id, hello.instance_id, self.policy.silence_ms)
        try:
            replaced = self._connect(tx, mesh, member)
        except AlreadyConnected as refusal:
            if not others:
                raise
            _note_second(tx, mesh, member.member_id, "refused")
            return Greeted(mesh, member, (), refusal)
        if others:
            _note_second(tx, mesh, member.member_id, "replaced" if replaced else "beside")
        _note_host(tx, mesh.mesh_id, member.member_id, hello.host_fingerprint)
        return Greeted(mesh, member, replaced)

    def _connect(self, tx: Tx, mesh: Mesh, member: Member) -> tuple[str, ...]:
        return connect(
            tx,
            connection_id=self.connection_id,
            broker_instance=self.broker_instance,
            mesh_id=mesh.mesh_id,
            member_id=member.member_id,
            instance_id=self.hello.instance_id,
            policy=mesh.connection_policy,
            stale_ms=self.policy.silence_ms,
            age_ms=self.age_ms,
        )


def _unknown() -> HelloRefused:
    return HelloRefused("There is no such member", reason="unknown")


def _standing(kept: Kept) -> RosterStanding:
    return RosterStanding(kept.fingerprint, kept.head, kept.restoring, kept.told)


def _check_joiner(tx: Tx, kept: Kept, hello: RosterHello) -> None:
    """Raises unless the bearer of the invite could join now, or has, and asks again for the answer."""
    if hello.invite is None:
        raise _unknown()
    if kept.restoring:
        raise RosterRestoring("The roster was restored from a backup and is not confirmed yet")
    state = current_state(tx, kept.mesh_id, kept.fingerprint, kept.head.hash)
    known = state.with_key(hello.pubkey)
    if known is not None and known.is_active and known.invite == hello.invite.id:
        return
    refusal = judge_invite(state, hello.invite, tx.now_ms)
    if refusal is not None:
        raise InviteRefused(f"Nobody can join by this invite: {refusal.message}", reason=refusal.reason)


def _other_daemons(tx: Tx, member_id: str, instance_id: str, stale_ms: int) -> bool:
    """Whether another daemon is connected as the member and was seen lately."""
    rows = tx.all("SELECT instance_id, seen_ms FROM connection WHERE member_id = ?", member_id)
    return any(instance != instance_id and seen_ms > tx.now_ms - stale_ms for instance, seen_ms in rows)


def _note_second(tx: Tx, mesh: Mesh, member_id: str, outcome: str) -> None:
    last = tx.one(
        "SELECT at_ms FROM audit WHERE mesh_id = ? AND event = ? AND actor = ? ORDER BY number DESC LIMIT 1",
        *(mesh.mesh_id, CONCURRENT, member_id),
    )
    if last is None or not 0 <= tx.now_ms - last[0] < CONCURRENT_EVERY_MS:
        record(tx, mesh.mesh_id, CONCURRENT, member_id, policy=mesh.connection_policy, outcome=outcome)


def _note_host(tx: Tx, mesh_id: str, member_id: str, fingerprint: str) -> None:
    """A member that comes from another host than before may be a copy; the audit log says so."""
    row = tx.one("SELECT host_fingerprint FROM member WHERE member_id = ?", member_id)
    before = row[0] if row else ""
    if fingerprint and fingerprint != before:
        tx.run("UPDATE member SET host_fingerprint = ? WHERE member_id = ?", fingerprint, member_id)
        if before:
            record(tx, mesh_id, "member_host_changed", member_id)
