"""A member whose keys ended with its daemon is ended by the broker, and no other member is."""

import hashlib

import msgspec
import pytest

from parley.broker.done import Done
from parley.broker.rules import audit
from parley.broker.rules.ephemeral import EndGoneMember
from parley.broker.rules.founding import Join
from parley.broker.rules.invites import register_invite
from parley.broker.rules.members import Role, get_member
from parley.broker.rules.presence import connect, disconnect
from parley.core import sealing
from parley.core.clock import iso
from parley.wire.invites import Invite, encode_invite, signed_invite
from parley.wire.mesh_http import JoinMesh, join_bytes
from tests.conformance.broker.circle import Circle, make_send

HOUR = 3_600_000


def joins(circle: Circle, name: str, *, ephemeral: bool = True, role: Role = "member") -> str:
    """Joins by an invite as a daemon does; the member's id."""
    broker, own = b"\1" * 32, hashlib.sha256(name.encode()).digest()
    invite = Invite(
        invite_id=f"inv_{name}",
        mesh_id=circle.mesh_id,
        mesh_slug="red",
        broker_url="ws://127.0.0.1",
        role=role,
        issuer=sealing.public_key(broker).hex(),
        expires_at=iso(circle.clock.now_ms() + HOUR),
        uses_max=1,
        key_epoch=1,
    )
    text = signed_invite(invite, broker)
    circle.store.call(lambda tx: register_invite(tx, text, None))
    asked = JoinMesh(encode_invite(text), sealing.public_key(own).hex(), name, "0" * 128, ephemeral=ephemeral)
    asked = msgspec.structs.replace(asked, signature=sealing.sign(own, join_bytes(asked)).hex())
    done = circle.store.call(Join(asked))
    return str(done.result["joined"].member_id)


def connects(circle: Circle, member_id: str) -> None:
    circle.store.call(
        lambda tx: connect(
            tx,
            connection_id="conn",
            broker_instance="b",
            mesh_id=circle.mesh_id,
            member_id=member_id,
            instance_id="i",
            policy="prefer_newest",
            stale_ms=75_000,
        )
    )


def sweeps(circle: Circle) -> Done | None:
    return circle.store.call(EndGoneMember(HOUR))


def state(circle: Circle, member_id: str) -> str:
    return circle.store.call(lambda tx: get_member(tx, circle.mesh_id, member_id)).state


def test_who_was_killed_is_ended_after_an_hour_away(circle: Circle) -> None:
    guest = joins(circle, "guest")
    connects(circle, guest)
    circle.clock.advance(5 * 3600)
    assert sweeps(circle) is None, "it is connected"
    circle.store.call(lambda tx: disconnect(tx, "conn"))
    circle.clock.advance(3599)
    assert sweeps(circle) is None, "it was here an hour ago"
    circle.accepted(circle.ann, make_send("c1", ref=sealing.public_key(hashlib.sha256(b"guest").digest()).hex()))
    circle.clock.advance(2)
    done = sweeps(circle)
    assert done is not None
    assert (done.ended, [notice.name for notice in done.notices], done.mesh_id) == (
        (guest,),
        ["member_gone"],
        circle.mesh_id,
    )
    assert state(circle, guest) == "left"
    assert circle.deliveries() == [("guest", "dead", 0)]
    assert sweeps(circle) is None
    rows = circle.rows("SELECT event, actor FROM audit ORDER BY number DESC LIMIT 1")
    assert [tuple(row) for row in rows] == [("member_left", "broker")]
    assert circle.store.call(lambda tx: audit.verify(tx, circle.mesh_id)) is None


@pytest.mark.parametrize(("ephemeral", "role"), [(False, "member"), (True, "owner")])
def test_who_may_come_back_and_an_owner_are_never_ended(circle: Circle, ephemeral: bool, role: Role) -> None:
    member = joins(circle, "dan", ephemeral=ephemeral, role=role)
    circle.clock.advance(100 * 24 * 3600)
    assert sweeps(circle) is None
    assert state(circle, member) == "active"


def test_who_joined_and_never_came_is_ended_too(circle: Circle) -> None:
    first, second = joins(circle, "one"), joins(circle, "two")
    circle.clock.advance(3601)
    assert {sweeps(circle).result["member_id"] for _ in range(2)} == {first, second}  # type: ignore[union-attr]
    assert sweeps(circle) is None
