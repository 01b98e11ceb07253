"""The transaction behind a hello: the member is one, with this key, and this connection is now its connection."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from parley.broker.policy import Policy
from parley.broker.rules.audit import record
from parley.broker.rules.members import Member, Mesh, lock_mesh, member_with_key
from parley.broker.rules.presence import connect
from parley.broker.tx import Tx
from parley.core.broker_errors import AlreadyConnected, HelloRefused, MembershipEnded
from parley.wire.broker import Hello

CONCURRENT: Final = "member_concurrent_connection"
CONCURRENT_EVERY_MS: Final = 3_600_000
"""So often a member's second daemon is told of at most: one that comes again and again must not fill the log."""


class Greeted(NamedTuple):
    """Who was greeted, and which connections this one replaces."""

    mesh: Mesh
    member: Member
    replaced: tuple[str, ...]
    refused: AlreadyConnected | None = None
    """Why the member was not let in after all; a value, since what the audit log says of it stays."""


@dataclass(frozen=True, slots=True)
class Greet:
    """A hello whose signature was verified."""

    hello: Hello
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
            raise HelloRefused("There is no such member", reason="unknown")
        mesh = lock_mesh(tx, hello.mesh_id)
        member = member_with_key(tx, hello.mesh_id, hello.pubkey)
        if member is None or member.member_id != hello.member_id:
            raise HelloRefused("There is no such member", reason="unknown")
        if member.state != "active":
            raise MembershipEnded("The member is no longer one of this mesh", reason=member.state)
        if member.pubkey != hello.pubkey:
            raise HelloRefused("The member has another key since", reason="rotated")
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
