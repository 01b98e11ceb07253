"""What is around the messages: members, invites, keys, grants, retention, the audit chain and the orphan check."""

import dataclasses
import hashlib

import msgspec
import pytest

from parley.broker.policy import DAY_MS
from parley.broker.rules import audit
from parley.broker.rules.invites import join, list_invites, register_invite, renew_proof, revoke_invite
from parley.broker.rules.keys import give_key, keys_for, keys_wanted, refuse_key
from parley.broker.rules.members import (
    Member,
    add_member,
    create_mesh,
    end_membership,
    lift_ban,
    lock_mesh,
    rotate_key,
    set_role,
)
from parley.broker.rules.messages import message_status, messages_reached, redeliver
from parley.broker.rules.orphans import find_orphans
from parley.broker.rules.retention import sweep, sweep_leases
from parley.broker.rules.topics import list_topics, subscribe, unsubscribe
from parley.core import sealing
from parley.core.broker_errors import InviteRefused, NoSuchDestination, NotAllowed, QuotaExceeded
from parley.core.clock import iso
from parley.core.errors import InvalidInput, NotFound
from parley.core.orphans import CHECKS
from parley.wire.invites import Invite, Role, signed_invite
from tests.conformance.broker.circle import Circle, key, make_send

SEED = hashlib.sha256(b"ann's own").digest()


def make_invite(
    circle: Circle, invite_id: str = "inv_1", *, role: Role = "member", uses: int = 1, days: int = 1
) -> Invite:
    """An invite that Ann has signed and registered."""
    circle.store.call(lambda tx: rotate_key(tx, circle.mesh_id, circle.ann.member_id, sealing.public_key(SEED).hex()))
    invite = Invite(
        invite_id=invite_id,
        mesh_id=circle.mesh_id,
        mesh_slug="red",
        broker_url="ws://127.0.0.1:1",
        role=role,
        issuer=sealing.public_key(SEED).hex(),
        expires_at=iso(circle.clock.now_ms() + days * DAY_MS),
        uses_max=uses,
        key_epoch=1,
    )
    signed = signed_invite(invite, SEED)
    circle.store.call(lambda tx: register_invite(tx, signed, circle.ann.member_id))
    return signed


def refused(circle: Circle, invite: Invite, name: str = "dan") -> object:
    with pytest.raises(InviteRefused) as caught:
        circle.store.call(lambda tx: join(tx, invite, key(name), name, ""))
    return caught.value.details["reason"]


def joined(circle: Circle, invite: Invite, name: str = "dan") -> Member:
    return circle.store.call(lambda tx: join(tx, invite, key(name), name, "proof"))[0]


def test_an_invite_lets_in_as_many_as_it_says_and_a_key_only_once(circle: Circle) -> None:
    invite = make_invite(circle, uses=2)
    dan = joined(circle, invite)
    assert (dan.role, dan.state) == ("member", "active")
    assert joined(circle, invite) == dan
    joined(circle, invite, "fay")
    assert refused(circle, invite, "gus") == "used_up"
    assert [row["uses"] for row in circle.store.call(lambda tx: list_invites(tx, circle.mesh_id))] == [2]


def test_an_invite_ends_with_its_time_by_its_issuers_word_and_with_its_issuer(circle: Circle) -> None:
    first, second, third = (make_invite(circle, f"inv_{n}", days=n) for n in (1, 2, 3))
    assert circle.store.call(lambda tx: revoke_invite(tx, circle.mesh_id, "inv_2", circle.ann.member_id))
    assert not circle.store.call(lambda tx: revoke_invite(tx, circle.mesh_id, "inv_2", circle.ann.member_id))
    circle.clock.advance(86_400)
    assert (refused(circle, first), refused(circle, second)) == ("expired", "revoked")
    circle.store.call(lambda tx: set_role(tx, circle.mesh_id, circle.bob.member_id, "owner"))
    circle.store.call(lambda tx: set_role(tx, circle.mesh_id, circle.ann.member_id, "member"))
    assert refused(circle, third) == "issuer"


def test_the_last_owner_goes_only_as_the_last_member(circle: Circle) -> None:
    def goes(member: Member) -> str:
        return circle.store.call(lambda tx: end_membership(tx, member.mesh_id, member.member_id, "left")).state

    with pytest.raises(NotAllowed):
        goes(circle.ann)
    assert [goes(each) for each in (circle.bob, circle.cid, circle.ann, circle.eve)] == ["left"] * 4


def test_an_invite_that_never_was_cannot_be_revoked(circle: Circle) -> None:
    make_invite(circle)
    for mesh_id, invite_id in ((circle.mesh_id, "inv_2"), (circle.other_mesh_id, "inv_1")):
        with pytest.raises(NotFound):
            circle.store.call(lambda tx, at=mesh_id, name=invite_id: revoke_invite(tx, at, name, "x"))


def test_a_proof_may_be_renewed_until_somebody_has_given_a_key(circle: Circle) -> None:
    first, other, late = (make_invite(circle, f"inv_{n}") for n in (1, 2, 3))
    dan = joined(circle, first)

    def renewed(invite: Invite, proof: str) -> bool:
        return circle.store.call(lambda tx: renew_proof(tx, invite, dan, proof))

    assert not renewed(first, "proof")
    assert not renewed(first, "")
    assert renewed(first, "a better one")
    assert renewed(other, "of another invite")
    _, wanted = circle.store.call(lambda tx: keys_wanted(tx, circle.mesh_id, circle.ann.member_id))
    assert [each["join_proof"] for each in wanted if each["member_id"] == dan.member_id] == ["of another invite"]
    uses = {each["invite_id"]: each["uses"] for each in circle.store.call(lambda tx: list_invites(tx, circle.mesh_id))}
    assert uses == {"inv_1": 1, "inv_2": 1, "inv_3": 0}
    circle.clock.advance(86_400)
    with pytest.raises(InviteRefused):
        renewed(late, "too late")
    circle.store.call(lambda tx: give_key(tx, circle.mesh_id, circle.ann.member_id, dan.member_id, 1, "c2VhbGVk"))
    assert not renewed(other, "nobody asks any more")
    assert not circle.store.call(lambda tx: renew_proof(tx, first, circle.bob, "bob came by no invite"))


@pytest.mark.parametrize("change", [{"role": "owner"}, {"uses_max": 99}, {"expires_at": "2099-01-01T00:00:00.000Z"}])
def test_a_changed_invite_is_forged(circle: Circle, change: dict[str, object]) -> None:
    invite = make_invite(circle)
    assert refused(circle, msgspec.structs.replace(invite, **change)) == "forged"


def test_an_invite_that_is_signed_by_a_stranger_or_not_registered_is_worth_nothing(circle: Circle) -> None:
    known = make_invite(circle)
    stranger = hashlib.sha256(b"stranger").digest()
    foreign = msgspec.structs.replace(known, issuer=sealing.public_key(stranger).hex())
    assert refused(circle, signed_invite(foreign, stranger)) == "unknown"
    unknown = signed_invite(msgspec.structs.replace(known, invite_id="inv_9"), SEED)
    assert refused(circle, unknown) == "unknown"
    with pytest.raises(InviteRefused):
        circle.store.call(lambda tx: register_invite(tx, unknown, circle.bob.member_id))


def test_nobody_invites_above_their_own_role(circle: Circle) -> None:
    circle.store.call(lambda tx: set_role(tx, circle.mesh_id, circle.bob.member_id, "owner"))
    circle.store.call(lambda tx: set_role(tx, circle.mesh_id, circle.ann.member_id, "admin"))
    with pytest.raises(NotAllowed):
        make_invite(circle, role="owner")


def test_who_was_banned_cannot_come_back_until_the_ban_is_lifted(circle: Circle) -> None:
    invite = make_invite(circle, uses=5)
    dan = joined(circle, invite)
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, dan.member_id, "banned"))
    assert refused(circle, invite) == "banned"
    assert circle.store.call(lambda tx: lift_ban(tx, circle.mesh_id, dan.member_id)).state == "left"
    assert joined(circle, invite).member_id == dan.member_id


def test_a_mesh_keeps_an_owner(circle: Circle) -> None:
    with pytest.raises(NotAllowed):
        circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.ann.member_id, "left"))
    with pytest.raises(NotAllowed):
        circle.store.call(lambda tx: set_role(tx, circle.mesh_id, circle.ann.member_id, "member"))


def test_ids_of_another_mesh_are_nobody_here(circle: Circle) -> None:
    with pytest.raises(NoSuchDestination):
        circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.eve.member_id, "banned"))
    with pytest.raises(NotFound):
        circle.store.call(lambda tx: lock_mesh(tx, "mesh_none"))


def test_a_slug_names_one_mesh_and_a_full_mesh_takes_nobody(circle: Circle) -> None:
    with pytest.raises(InvalidInput):
        circle.store.call(lambda tx: create_mesh(tx, "red", "Red again", circle.policy))
    circle.store.call(lambda tx: tx.run("UPDATE mesh SET members_max = 3 WHERE mesh_id = ?", circle.mesh_id))
    with pytest.raises(QuotaExceeded):
        circle.join("dan")
    assert circle.join("bob") == circle.bob


def test_a_key_belongs_to_one_member_for_ever(circle: Circle) -> None:
    circle.store.call(lambda tx: rotate_key(tx, circle.mesh_id, circle.bob.member_id, key("new")))
    for name in ("new", "cid"):
        with pytest.raises(InvalidInput):
            circle.store.call(lambda tx, name=name: rotate_key(tx, circle.mesh_id, circle.ann.member_id, key(name)))
    with pytest.raises(InvalidInput):
        circle.store.call(lambda tx: rotate_key(tx, circle.mesh_id, circle.bob.member_id, key("bob")))
    with pytest.raises(InviteRefused):
        circle.store.call(lambda tx: add_member(tx, circle.mesh_id, key("bob"), "bob", "member"))


def test_a_mesh_key_goes_from_who_has_it_to_who_wants_it_and_rubbish_keeps_nobody_from_it(circle: Circle) -> None:
    mesh, ann, bob, cid = circle.mesh_id, circle.ann.member_id, circle.bob.member_id, circle.cid.member_id
    epoch, wanted = circle.store.call(lambda tx: keys_wanted(tx, mesh, ann))
    assert (epoch, [each["member_id"] for each in wanted]) == (1, [bob, cid])
    assert circle.store.call(lambda tx: give_key(tx, mesh, cid, bob, 1, "rubbish="))
    assert not circle.store.call(lambda tx: give_key(tx, mesh, cid, bob, 1, "other"))
    assert [each["member_id"] for each in circle.store.call(lambda tx: keys_wanted(tx, mesh, ann))[1]] == [cid]
    _, given = circle.store.call(lambda tx: keys_for(tx, mesh, bob))
    assert [(each["giver_id"], each["sealed"]) for each in given] == [(cid, "rubbish=")]
    assert circle.store.call(lambda tx: refuse_key(tx, bob, 1, cid))
    assert [each["member_id"] for each in circle.store.call(lambda tx: keys_wanted(tx, mesh, ann))[1]] == [bob, cid]
    circle.store.call(lambda tx: end_membership(tx, mesh, cid, "revoked"))
    assert circle.store.call(lambda tx: keys_wanted(tx, mesh, ann))[0] == 2, "a removal asks for a new key"
    with pytest.raises(InvalidInput):
        circle.store.call(lambda tx: give_key(tx, mesh, ann, bob, 3, "early"))


def test_topics_say_who_is_subscribed(circle: Circle) -> None:
    mesh, ann, bob = circle.mesh_id, circle.ann.member_id, circle.bob.member_id
    assert circle.store.call(lambda tx: subscribe(tx, mesh, ann, "deploy"))
    assert not circle.store.call(lambda tx: subscribe(tx, mesh, ann, "deploy"))
    assert circle.store.call(lambda tx: unsubscribe(tx, mesh, ann, "deploy"))
    assert not circle.store.call(lambda tx: unsubscribe(tx, mesh, ann, "deploy"))
    circle.store.call(lambda tx: subscribe(tx, mesh, bob, "deploy"))
    (topic,) = circle.store.call(lambda tx: list_topics(tx, mesh, ann))
    assert (topic["topic"], topic["subscribers"], topic["subscribed"]) == ("deploy", 1, False)
    assert circle.store.call(lambda tx: list_topics(tx, circle.other_mesh_id, circle.eve.member_id)) == []


def test_a_sender_learns_what_became_of_its_own_messages_alone(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send(kind="queue", ref="*"))
    circle.acknowledge(circle.bob, *circle.claim(circle.bob))
    status = circle.store.call(lambda tx: message_status(tx, circle.mesh_id, circle.ann.member_id, "c1"))
    deliveries = status["deliveries"]
    assert isinstance(deliveries, list)
    assert [(each["display_name"], each["state"]) for each in deliveries] == [("bob", "delivered"), ("cid", "queued")]
    with pytest.raises(NotFound):
        circle.store.call(lambda tx: message_status(tx, circle.mesh_id, circle.bob.member_id, "c1"))
    assert circle.store.call(lambda tx: redeliver(tx, circle.bob.member_id)) == 1
    assert len(circle.claim(circle.bob)) == 1


def test_a_sender_learns_of_many_messages_at_once_how_far_they_came(circle: Circle) -> None:
    def reached(sender: Member, *ids: str) -> dict[str, tuple[int, int, int]]:
        found = circle.store.call(lambda tx: messages_reached(tx, circle.mesh_id, sender.member_id, list(ids)))
        return {each["client_message_id"]: (each["recipients"], each["delivered"], each["dead"]) for each in found}  # type: ignore[misc]

    circle.accepted(circle.ann, make_send("c1", "queue", "*"))
    circle.accepted(circle.ann, make_send("c2", "dm", key("bob")))
    circle.acknowledge(circle.bob, *circle.claim(circle.bob, count=1))
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.cid.member_id, "left"))
    assert reached(circle.ann, "c1", "c2", "none") == {"c1": (2, 1, 1), "c2": (1, 0, 0)}
    assert reached(circle.ann) == {}
    assert reached(circle.bob, "c1", "c2") == {}


def test_what_is_old_goes_and_its_id_stays_until_nobody_can_be_sending_it(circle: Circle) -> None:
    policy = dataclasses.replace(circle.policy, delivery_days=2, message_days=3, dedupe_days=10)
    circle.store.policy = policy
    circle.accepted(circle.ann, make_send("old", "queue", "*", mentions=[key("bob")]))
    circle.acknowledge(circle.bob, *circle.claim(circle.bob))
    circle.clock.advance(2 * 86_400 + 1)
    swept = circle.store.call(lambda tx: sweep(tx, policy, 100))
    assert (swept.expired, swept.messages, swept.ids) == (1, 0, 0)
    states = circle.rows("SELECT state, reason FROM delivery_queue ORDER BY delivery_id")
    assert states == [("delivered", None), ("dead", "expired")]
    circle.clock.advance(86_400)
    circle.accepted(circle.ann, make_send("new"))
    swept = circle.store.call(lambda tx: sweep(tx, policy, 100))
    assert (swept.messages, swept.ids) == (1, 0)
    again = circle.accepted(circle.ann, make_send("old", "queue", "*", mentions=[key("bob")]))
    assert (again.duplicate, again.history_available) == (True, False)
    assert circle.rows("SELECT stored_bytes FROM mesh WHERE mesh_id = ?", circle.mesh_id) == [(5,)]
    assert circle.store.call(find_orphans) == []
    circle.clock.advance(8 * 86_400)
    assert circle.store.call(lambda tx: sweep(tx, policy, 100)).ids == 1


def test_a_sweep_removes_a_few_at_a_time(circle: Circle) -> None:
    policy = dataclasses.replace(circle.policy, delivery_days=1, message_days=1)
    for number in range(5):
        circle.accepted(circle.ann, make_send(f"c{number}"))
    circle.clock.advance(86_401)
    removed = [circle.store.call(lambda tx: sweep(tx, policy, 2)).messages for _ in range(4)]
    assert removed == [2, 2, 1, 0]


def test_a_sweep_of_leases_names_whom_to_wake(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send())
    circle.claim(circle.bob)
    assert circle.store.call(lambda tx: sweep_leases(tx, circle.policy)) == ()
    circle.clock.advance(30)
    assert circle.store.call(lambda tx: sweep_leases(tx, circle.policy)) == (circle.bob.member_id,)


def record_some(circle: Circle) -> None:
    for number in range(4):
        circle.store.call(lambda tx, n=number: audit.record(tx, circle.mesh_id, "test", "ann", number=n, z="é"))


def test_an_audit_chain_that_was_not_touched_holds(circle: Circle) -> None:
    record_some(circle)
    assert circle.store.call(lambda tx: audit.verify(tx, circle.mesh_id)) is None
    assert circle.store.call(lambda tx: audit.verify(tx, circle.other_mesh_id)) is None
    assert [row[0] for row in circle.store.call(lambda tx: audit.entries(tx, circle.mesh_id, 1, 2))] == [2, 3]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE audit SET payload = '{}' WHERE number = 2",
        "UPDATE audit SET at_ms = at_ms + 1 WHERE number = 2",
        "UPDATE audit SET actor = 'eve' WHERE number = 2",
        "DELETE FROM audit WHERE number = 2",
        "UPDATE audit SET hash = previous WHERE number = 2",
        "DELETE FROM audit WHERE number >= 2",
    ],
)
def test_an_audit_chain_that_was_touched_breaks_there(circle: Circle, damage: str) -> None:
    record_some(circle)
    circle.store.call(lambda tx: tx.run(damage))
    assert circle.store.call(lambda tx: audit.verify(tx, circle.mesh_id)) == 2


DAMAGE = {
    "id_without_message": "DELETE FROM message WHERE broker_message_id = ?",
    "id_without_history": "UPDATE client_message_dedupe SET history_id = 999999 WHERE broker_message_id = ?",
    "message_without_id": "DELETE FROM client_message_dedupe WHERE broker_message_id = ?",
    "history_without_body": "DELETE FROM message WHERE broker_message_id = ?",
    "pruned_but_there": "UPDATE client_message_dedupe SET history_available = 0 WHERE broker_message_id = ?",
    "deliveries_missing": "DELETE FROM delivery_queue WHERE broker_message_id = ?",
    "stored_bytes_wrong": (
        "UPDATE mesh SET stored_bytes = 1"
        " WHERE mesh_id = (SELECT m.mesh_id FROM message AS m WHERE m.broker_message_id = ?)"
    ),
    "delivery_without_message": (
        "UPDATE delivery_queue SET mesh_id = (SELECT max(mesh_id) FROM mesh) WHERE broker_message_id = ?"
    ),
    "body_without_history": "UPDATE message SET mesh_id = (SELECT max(mesh_id) FROM mesh) WHERE broker_message_id = ?",
    "body_size_wrong": "UPDATE message SET body = substr(body, 2) WHERE broker_message_id = ?",
    "delivery_to_stranger": (
        "UPDATE delivery_queue SET recipient_id = (SELECT member_id FROM member WHERE display_name = 'eve')"
        " WHERE broker_message_id = ?"
    ),
    "mention_without_message": (
        "INSERT INTO mention_index (mentioned_id, broker_message_id)"
        " SELECT m.member_id, h.broker_message_id FROM member AS m, message_history AS h"
        " WHERE m.display_name = 'eve' AND h.broker_message_id = ?"
    ),
    "mention_differs": "UPDATE delivery_queue SET mentioned = 1 WHERE broker_message_id = ?",
}


@pytest.mark.parametrize("check", CHECKS)
def test_each_kind_of_damage_is_found_by_its_check(circle: Circle, check: str) -> None:
    answer = circle.accepted(circle.ann, make_send())
    circle.accepted(circle.ann, make_send("sound"))
    assert circle.store.call(find_orphans) == []
    circle.store.call(lambda tx: tx.run(DAMAGE[check], answer.broker_message_id))
    found = {each.check: each for each in circle.store.call(find_orphans)}
    assert check in found
    assert found[check].times == 1
    assert found[check].meaning
