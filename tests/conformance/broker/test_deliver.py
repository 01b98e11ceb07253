"""Deliveries: one for each recipient, under a lease, until the recipient itself says that it has them."""

import pytest

from parley.broker.calls import AcceptMessage, AcknowledgeDeliveries, ClaimDeliveries
from parley.broker.rules.deliver import expire
from parley.broker.rules.members import Ending, end_membership
from parley.broker.rules.presence import set_presence
from parley.wire.broker import DeliveryAcked, decode_from_broker, encode_frame
from tests.conformance.broker.circle import Circle, acknowledge, key, make_send, release


def send_some(circle: Circle, *priorities: str) -> None:
    for number, priority in enumerate(priorities):
        circle.accepted(circle.ann, make_send(f"c{number}", priority=priority))


def test_a_push_carries_the_message_as_it_was_sent(circle: Circle) -> None:
    send = make_send("c1", body=b"\x00\xffsealed", meta={"kind": "x"}, reply_to="bm_1", key_epoch=3)
    answer = circle.accepted(circle.ann, send)
    (push,) = circle.claim(circle.bob)
    message = push.message
    assert (push.attempt, push.mentioned) == (1, False)
    assert (message.broker_message_id, message.history_id) == (answer.broker_message_id, answer.history_id)
    assert (message.client_message_id, message.body, message.meta) == ("c1", send.body, {"kind": "x"})
    assert (message.sender, message.sender_id, message.sender_name) == (key("ann"), circle.ann.member_id, "ann")
    assert (message.reply_to, message.key_epoch, message.accepted_at) == ("bm_1", 3, answer.first_seen_at)


def test_offline_recipients_get_everything_later(circle: Circle) -> None:
    send_some(circle, *["next"] * 5)
    circle.clock.advance(86_400)
    assert [push.message.client_message_id for push in circle.claim(circle.bob)] == [f"c{n}" for n in range(5)]


def test_the_urgent_comes_first_and_then_the_oldest(circle: Circle) -> None:
    send_some(circle, "low", "next", "now", "next", "now", "low")
    names = [push.message.client_message_id for push in circle.claim(circle.bob)]
    assert names == ["c2", "c4", "c1", "c3", "c0", "c5"]


def test_no_more_is_leased_than_there_is_room_for(circle: Circle) -> None:
    send_some(circle, *["next"] * 5)
    assert len(circle.claim(circle.bob, count=2)) == 2
    assert [push.message.client_message_id for push in circle.claim(circle.bob, count=2)] == ["c2", "c3"]


@pytest.mark.parametrize("status", ["working", "dnd"])
def test_who_is_busy_gets_only_what_cannot_wait(circle: Circle, status: str) -> None:
    send_some(circle, "low", "next", "now")
    circle.store.call(lambda tx: set_presence(tx, circle.bob.member_id, status, None, None))
    assert [push.message.client_message_id for push in circle.claim(circle.bob)] == ["c2"]
    circle.store.call(lambda tx: set_presence(tx, circle.bob.member_id, "idle", None, None))
    assert [push.message.client_message_id for push in circle.claim(circle.bob)] == ["c1", "c0"]


def test_working_ends_by_itself_and_dnd_does_not(circle: Circle) -> None:
    send_some(circle, "next")
    circle.store.call(lambda tx: set_presence(tx, circle.bob.member_id, "dnd", None, None))
    circle.clock.advance(86_400)
    assert circle.claim(circle.bob) == []
    circle.store.call(lambda tx: set_presence(tx, circle.bob.member_id, "working", None, None))
    assert circle.claim(circle.bob) == []
    circle.clock.advance(3_600)
    assert len(circle.claim(circle.bob)) == 1


def test_what_is_leased_is_nobody_elses_until_the_lease_is_over(circle: Circle) -> None:
    send_some(circle, "next")
    (first,) = circle.claim(circle.bob, "one")
    assert circle.claim(circle.bob, "two") == []
    circle.clock.advance(circle.policy.lease_ms / 1000 - 0.001)
    assert circle.claim(circle.bob, "two") == []
    circle.clock.advance(0.001)
    (again,) = circle.claim(circle.bob, "two")
    assert (again.delivery_id, again.attempt) == (first.delivery_id, 2)


def test_a_lease_from_before_the_clock_was_set_back_does_not_last_for_ever(circle: Circle) -> None:
    send_some(circle, "next")
    circle.claim(circle.bob)
    circle.clock.jump(-3_600_000)
    assert len(circle.claim(circle.bob)) == 1


def test_what_an_ended_connection_had_is_queued_again_at_once(circle: Circle) -> None:
    send_some(circle, "next", "next")
    circle.claim(circle.bob, "one", count=1)
    circle.claim(circle.bob, "two", count=1)
    assert release(circle.store, "one") == (circle.bob.member_id,)
    assert release(circle.store, "one") == ()
    assert [push.message.client_message_id for push in circle.claim(circle.bob, "three")] == ["c0"]


def test_expired_leases_are_queued_again_and_their_recipients_named(circle: Circle) -> None:
    send_some(circle, "next")
    circle.accepted(circle.bob, make_send("d", ref=key("cid")))
    circle.claim(circle.bob)
    circle.clock.advance(1)
    circle.claim(circle.cid)
    circle.clock.advance(circle.policy.lease_ms / 1000 - 1)
    lease_ms = circle.policy.lease_ms
    assert circle.store.call(lambda tx: expire(tx, lease_ms)) == (circle.bob.member_id,)
    assert circle.deliveries() == [("bob", "queued", 1), ("cid", "leased", 1)]


def test_an_acknowledged_delivery_never_comes_again(circle: Circle) -> None:
    send_some(circle, "next")
    pushes = circle.claim(circle.bob)
    assert circle.acknowledge(circle.bob, *pushes) == 1
    assert circle.acknowledge(circle.bob, *pushes) == 0
    circle.clock.advance(3600)
    release(circle.store, "conn")
    assert circle.claim(circle.bob) == []
    assert circle.deliveries() == [("bob", "delivered", 1)]


def test_one_recipients_acknowledgement_is_nobody_elses(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send(kind="queue", ref="*"))
    pushes = circle.claim(circle.bob)
    assert circle.acknowledge(circle.bob, *pushes) == 1
    assert len(circle.claim(circle.cid)) == 1


def test_only_the_recipient_can_acknowledge(circle: Circle) -> None:
    send_some(circle, "next")
    pushes = circle.claim(circle.bob)
    for other in (circle.ann, circle.cid, circle.eve):
        assert circle.acknowledge(other, *pushes) == 0
    assert circle.deliveries() == [("bob", "leased", 1)]


def test_an_acknowledgement_counts_after_its_lease_is_over(circle: Circle) -> None:
    send_some(circle, "next")
    pushes = circle.claim(circle.bob, "one")
    release(circle.store, "one")
    assert circle.acknowledge(circle.bob, *pushes) == 1
    assert circle.claim(circle.bob, "two") == []


def test_what_could_not_be_read_is_delivered_and_says_so(circle: Circle) -> None:
    send_some(circle, "next", "next")
    first, second = circle.claim(circle.bob)
    acks = [DeliveryAcked(first.delivery_id, "undecryptable"), DeliveryAcked(second.delivery_id), DeliveryAcked(10**9)]
    assert acknowledge(circle.store, circle.bob.member_id, acks) == 2
    found = circle.rows("SELECT status FROM delivery_queue ORDER BY delivery_id")
    assert found == [("undecryptable",), ("stored",)]


def test_two_connections_never_hold_the_same_delivery(circle: Circle) -> None:
    send_some(circle, *["next"] * 6)
    claimed = [circle.claim(circle.bob, name, count=2) for name in ("one", "two", "three", "four")]
    ids = [push.delivery_id for pushes in claimed for push in pushes]
    assert len(ids) == len(set(ids)) == 6


def test_what_waits_for_somebody_who_is_gone_is_dead_and_says_why(circle: Circle) -> None:
    send_some(circle, "next", "next")
    circle.claim(circle.bob, count=1)
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.bob.member_id, "revoked"))
    assert circle.rows("SELECT state, reason FROM delivery_queue") == [("dead", "recipient_gone")] * 2
    assert circle.claim(circle.bob) == []


@pytest.mark.parametrize("how", ["banned", "revoked"])
def test_m1_what_is_queued_from_somebody_who_is_put_out_is_dead_and_says_why(circle: Circle, how: Ending) -> None:
    for number in range(3):
        circle.accepted(circle.bob, make_send(f"b{number}", ref=key("ann")))
    circle.accepted(circle.bob, make_send("all", kind="queue", ref="*"))
    circle.accepted(circle.cid, make_send("other", ref=key("ann")))
    (got,) = circle.claim(circle.ann, count=1)
    circle.acknowledge(circle.ann, got)
    (leased,) = circle.claim(circle.ann, count=1)
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.bob.member_id, how))
    rows = circle.rows(
        "SELECT h.client_message_id, d.state, d.reason FROM delivery_queue AS d JOIN message_history AS h"
        " ON h.broker_message_id = d.broker_message_id ORDER BY d.delivery_id"
    )
    dead = ("dead", "sender_gone")
    assert rows == [
        ("b0", "delivered", None),
        *((name, *dead) for name in ("b1", "b2", "all", "all")),
        ("other", "queued", None),
    ]
    assert [push.message.client_message_id for push in circle.claim(circle.ann, "again")] == ["other"]
    assert circle.claim(circle.cid) == []
    assert circle.acknowledge(circle.ann, leased) == 1  # what is on the recipient's disk is delivered


def test_what_is_queued_from_somebody_who_leaves_still_arrives(circle: Circle) -> None:
    circle.accepted(circle.bob, make_send("bye", ref=key("ann")))
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.bob.member_id, "left"))
    assert [push.message.client_message_id for push in circle.claim(circle.ann)] == ["bye"]


def test_m1_metadata_that_was_taken_before_its_depth_was_looked_at_holds_up_nothing(circle: Circle) -> None:
    send_some(circle, "next", "next")
    deep = '{"a": ' * 900 + "1" + "}" * 900
    circle.store.call(lambda tx: tx.run("UPDATE message_history SET meta = ? WHERE client_message_id = ?", deep, "c0"))
    pushes = circle.claim(circle.bob)
    assert [(push.message.client_message_id, push.message.meta) for push in pushes] == [("c0", {}), ("c1", {})]
    assert [decode_from_broker(encode_frame(push)) for push in pushes] == pushes


def test_connections_that_claim_together_never_get_the_same(circle: Circle) -> None:
    send_some(circle, *["next"] * 3)
    circle.accepted(circle.ann, make_send("cid", ref=key("cid")))
    asked = [("one", circle.bob, 2), ("two", circle.bob, 2), ("three", circle.cid, 2), ("four", circle.ann, 2)]
    outcomes = circle.store.commit([ClaimDeliveries(who.member_id, name, room, 30_000) for name, who, room in asked])
    names = [[push.message.client_message_id for push in each.value or []] for each in outcomes]
    assert names == [["c0", "c1"], ["c2"], ["cid"], []]
    leases = circle.rows("SELECT leased_by, count(*) FROM delivery_queue GROUP BY leased_by ORDER BY leased_by")
    assert leases == [("one", 2), ("three", 1), ("two", 1)]


def test_acknowledgements_that_come_together_count_once_each(circle: Circle) -> None:
    send_some(circle, *["next"] * 3)
    circle.accepted(circle.ann, make_send("cid", ref=key("cid")))
    first, second, third = (push.delivery_id for push in circle.claim(circle.bob))
    (other,) = (push.delivery_id for push in circle.claim(circle.cid))
    said = [
        AcknowledgeDeliveries(circle.bob.member_id, (DeliveryAcked(first), DeliveryAcked(other))),
        AcknowledgeDeliveries(circle.bob.member_id, (DeliveryAcked(first), DeliveryAcked(second, "undecryptable"))),
        AcknowledgeDeliveries(circle.cid.member_id, (DeliveryAcked(third),)),
        AcknowledgeDeliveries(circle.cid.member_id, ()),
    ]
    assert [each.value for each in circle.store.commit(said)] == [1, 1, 0, 0]
    rows = circle.rows("SELECT delivery_id, state, status FROM delivery_queue ORDER BY delivery_id")
    assert rows == [
        (first, "delivered", "stored"),
        (second, "delivered", "undecryptable"),
        (third, "leased", None),
        (other, "leased", None),
    ]


def test_a_claim_sees_what_was_accepted_before_it_in_the_same_commit(circle: Circle) -> None:
    accept = AcceptMessage(circle.incoming(circle.ann, make_send("c1")), circle.policy)
    claim = ClaimDeliveries(circle.bob.member_id, "conn", 1, 30_000)
    _, claimed = circle.store.commit([accept, claim])
    assert [push.message.client_message_id for push in claimed.value or []] == ["c1"]
