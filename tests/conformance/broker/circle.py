"""A mesh of three members, with the few things that most tests do to it."""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from parley.broker.calls import AcceptMessage, AcknowledgeDeliveries, ClaimDeliveries, EndConnection
from parley.broker.policy import Policy
from parley.broker.rules.accept import AcceptOutcome, Incoming, incoming
from parley.broker.rules.members import Member, Role, add_member, create_mesh
from parley.broker.store import BrokerStore
from parley.broker.tx import Row, Tx
from parley.core.clock import ManualClock
from parley.sqlite import Outcome
from parley.wire.broker import Accepted, DeliveryAcked, Push, RefusedSend, Send, wire_fingerprint

KEPT = (
    "client_message_dedupe",
    "message",
    "message_history",
    "delivery_queue",
    "mention_index",
)
"""What an accepted message writes."""


def key(name: str) -> str:
    """A public key for somebody; no test here signs with it."""
    return name.encode().hex().ljust(64, "0")


def make_send(client_id: str = "c1", kind: str = "dm", ref: str = "", body: bytes = b"hello", **more: Any) -> Send:
    """A frame with the fingerprint that belongs to it."""
    bare = Send(client_id, kind, ref or key("bob"), base64.b64encode(body).decode(), "0" * 64, **more)  # type: ignore[arg-type]
    return Send(client_id, kind, bare.ref, bare.body, wire_fingerprint(bare).hex(), **more)  # type: ignore[arg-type]


def join_many(tx: Tx, mesh_id: str, states: Iterable[str], key_of: Callable[[str], str] = key) -> None:
    """A member p0, p1 … in each of these states, in one statement: for a mesh that many have joined."""
    names = ((f"p{number}", state) for number, state in enumerate(states))
    tx.many(
        "INSERT INTO member (member_id, mesh_id, pubkey, display_name, role, state, joined_ms)"
        " VALUES (?, ?, ?, ?, 'member', ?, ?)",
        [(tx.new_id("mem_"), mesh_id, key_of(name), name, state, tx.now_ms) for name, state in names],
    )


class Circle:
    """Ann, Bob and Cid in one mesh, Eve in another."""

    def __init__(self, store: BrokerStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.mesh_id = store.call(lambda tx: create_mesh(tx, "red", "Red", store.policy)).mesh_id
        self.other_mesh_id = store.call(lambda tx: create_mesh(tx, "blue", "Blue", store.policy)).mesh_id
        self.ann, self.bob, self.cid = self.join("ann", "owner"), self.join("bob"), self.join("cid")
        self.eve = self.join("eve", "owner", mesh_id=self.other_mesh_id)

    @property
    def policy(self) -> Policy:
        return self.store.policy

    def join(self, name: str, role: Role = "member", mesh_id: str | None = None) -> Member:
        return self.store.call(lambda tx: add_member(tx, mesh_id or self.mesh_id, key(name), name, role))

    def incoming(self, sender: Member, send: Send) -> Incoming:
        return incoming(sender.mesh_id, sender.member_id, send)

    def offer(self, sender: Member, send: Send) -> AcceptOutcome:
        (outcome,) = accept(self.store, [self.incoming(sender, send)])
        assert outcome.error is None, outcome.error
        assert outcome.value is not None
        return outcome.value

    def accepted(self, sender: Member, send: Send) -> Accepted:
        answer = self.offer(sender, send).answer
        assert isinstance(answer, Accepted), answer
        return answer

    def refused(self, sender: Member, send: Send) -> RefusedSend:
        answer = self.offer(sender, send).answer
        assert isinstance(answer, RefusedSend), answer
        return answer

    def claim(self, member: Member, connection_id: str = "conn", count: int = 100) -> list[Push]:
        return claim_for(self.store, member.member_id, connection_id, count)

    def acknowledge(self, member: Member, *pushes: Push) -> int:
        return acknowledge(self.store, member.member_id, [DeliveryAcked(each.delivery_id) for each in pushes])

    def rows(self, sql: str, *args: Any) -> list[Row]:
        return self.store.call(lambda tx: tx.all(sql, *args))

    def counts(self) -> dict[str, int]:
        """How many rows there are of what an accepted message writes."""
        return {table: self.rows(f"SELECT count(*) FROM {table}")[0][0] for table in KEPT}

    def deliveries(self) -> list[Row]:
        sql = (
            "SELECT m.display_name, d.state, d.attempts FROM delivery_queue AS d"
            " JOIN member AS m ON m.member_id = d.recipient_id ORDER BY d.delivery_id"
        )
        return self.rows(sql)


def accept(store: BrokerStore, batch: Sequence[Incoming]) -> list[Outcome[AcceptOutcome]]:
    """Messages that wait, accepted together."""
    return store.commit([AcceptMessage(message, store.policy) for message in batch])


def claim_for(store: BrokerStore, member_id: str, connection_id: str, count: int) -> list[Push]:
    """Leases deliveries to a connection of the member."""
    return store.call(ClaimDeliveries(member_id, connection_id, count, store.policy.lease_ms))


def acknowledge(store: BrokerStore, member_id: str, deliveries: Sequence[DeliveryAcked]) -> int:
    """The member has these on disk; how many of them are its own and were not acknowledged before."""
    return store.call(AcknowledgeDeliveries(member_id, tuple(deliveries)))


def release(store: BrokerStore, connection_id: str) -> tuple[str, ...]:
    """The connection is gone; for whom something is queued again."""
    return store.call(EndConnection(connection_id))
