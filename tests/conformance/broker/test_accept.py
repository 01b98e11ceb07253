"""Accepting, phase by phase: authentication, B0, B1, B2, B3; and no refusal leaves an id behind."""

import dataclasses
import json

import pytest

from parley.broker.rules.accept import incoming
from parley.broker.rules.grants import grant
from parley.broker.rules.members import Member, end_membership, rotate_key
from parley.broker.rules.topics import join_group, subscribe
from parley.broker.store import BrokerStore
from parley.broker.tx import Tx
from parley.core.clock import iso
from parley.core.errors import InvalidInput
from parley.wire.broker import Accepted, Send
from tests.conformance.broker.circle import Circle, accept, key, make_send

NOTHING = dict.fromkeys(("client_message_dedupe", "message", "message_history", "delivery_queue", "mention_index"), 0)


def set_policy(circle: Circle, **changes: int) -> None:
    circle.store.policy = dataclasses.replace(circle.store.policy, **changes)


def test_b3_an_accepted_message_is_written_whole_in_one_transaction(circle: Circle) -> None:
    answer = circle.accepted(circle.ann, make_send(mentions=[key("bob"), key("nobody")]))
    assert (answer.status, answer.duplicate, answer.recipients) == (201, False, 1)
    assert answer.first_seen_at == iso(circle.clock.now_ms())
    assert circle.counts() == dict.fromkeys(NOTHING, 1)
    assert circle.rows("SELECT broker_message_id, history_id, history_available FROM client_message_dedupe") == [
        (answer.broker_message_id, answer.history_id, 1)
    ]
    assert circle.rows("SELECT stored_bytes FROM mesh WHERE mesh_id = ?", circle.mesh_id) == [(len(b"hello"),)]


def test_b0_the_same_message_again_is_answered_as_the_first_time_and_writes_nothing(circle: Circle) -> None:
    first = circle.accepted(circle.ann, make_send())
    before = circle.counts()
    circle.clock.advance(3600)
    again = circle.accepted(circle.ann, make_send())
    assert (again.status, again.duplicate) == (200, True)
    assert (again.broker_message_id, again.history_id) == (first.broker_message_id, first.history_id)
    assert (again.first_seen_at, again.history_available) == (first.first_seen_at, True)
    assert circle.offer(circle.ann, make_send()).woken == ()
    assert circle.counts() == before


@pytest.mark.parametrize(
    "other",
    [
        make_send(body=b"other"),
        make_send(priority="now"),
        make_send(ref=key("cid")),
        make_send(meta={"a": 1}),
        make_send(reply_to="bm_1"),
        make_send(mentions=[key("bob")]),
    ],
    ids=["body", "priority", "ref", "meta", "reply_to", "mentions"],
)
def test_b0_the_id_of_another_message_is_a_conflict(circle: Circle, other: Send) -> None:
    circle.accepted(circle.ann, make_send())
    before = circle.counts()
    refused = circle.refused(circle.ann, other)
    problem = refused.problem
    assert (problem.code, problem.status, problem.transient) == ("IDEMPOTENCY_KEY_REUSED", 409, False)
    assert problem.details["conflict"] == "request_fingerprint_mismatch"
    assert problem.details["broker_fingerprint_prefix"] == make_send().fingerprint[:16]
    assert refused.retry_after_ms is None
    assert circle.counts() == before


def test_b0_a_retry_that_has_become_unreadable_is_a_conflict_not_a_duplicate(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send())
    broken = dataclasses_replace(make_send(), body="%%%")
    assert circle.refused(circle.ann, broken).problem.status == 409


def test_b0_comes_before_the_limiter_and_before_the_destination(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send())
    set_policy(circle, rate_messages=0, inline_bytes_max=1)
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.bob.member_id, "left"))
    assert circle.accepted(circle.ann, make_send()).duplicate


def test_the_key_of_an_id_includes_its_sender(circle: Circle) -> None:
    first = circle.accepted(circle.ann, make_send(ref=key("cid")))
    second = circle.accepted(circle.bob, make_send(ref=key("cid"), body=b"from bob"))
    assert second.status == 201
    assert second.broker_message_id != first.broker_message_id
    assert [push.message.sender_name for push in circle.claim(circle.cid)] == ["ann", "bob"]


@pytest.mark.parametrize("how", ["left", "revoked", "banned"])
def test_authentication_comes_before_b0(circle: Circle, how: str) -> None:
    circle.accepted(circle.bob, make_send(ref=key("ann")))
    before = circle.counts()
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.bob.member_id, how))  # type: ignore[arg-type]
    problem = circle.refused(circle.bob, make_send(ref=key("ann"))).problem
    assert (problem.code, problem.status, problem.details["reason"]) == ("MEMBERSHIP_ENDED", 403, how)
    assert circle.counts() == before


def test_a_member_of_one_mesh_is_nobody_in_another(circle: Circle) -> None:
    stray = incoming(circle.other_mesh_id, circle.ann.member_id, make_send(ref=key("eve")))
    (outcome,) = accept(circle.store, [stray])
    assert outcome.value is not None
    assert outcome.value.answer.problem.code == "MEMBERSHIP_ENDED"  # type: ignore[union-attr]
    assert circle.counts() == NOTHING


@pytest.mark.parametrize(
    ("send", "code", "status"),
    [
        (make_send(body=b"x" * (64 * 1024 + 1)), "PAYLOAD_TOO_LARGE", 413),
        (make_send(meta={"a": "x" * 5000}), "PAYLOAD_TOO_LARGE", 413),
        (make_send(meta=json.loads('{"a": ' * 65 + "1" + "}" * 65)), "INVALID_INPUT", 400),
        (Send("c1", "dm", key("bob"), "not base64!", "0" * 64), "INVALID_INPUT", 400),
        (Send("c1", "dm", key("bob"), "aGVsbG8=", "0" * 64), "INVALID_INPUT", 400),
        (
            Send("c1", "queue", "nogroup", "aGVsbG8=", make_send(kind="queue", ref="nogroup").fingerprint),
            "INVALID_INPUT",
            400,
        ),
    ],
    ids=["too large", "meta too large", "meta too deep", "not base64", "forged fingerprint", "queue without a mark"],
)
def test_b1_what_is_not_well_formed_is_refused_and_its_id_is_free(
    circle: Circle, send: Send, code: str, status: int
) -> None:
    problem = circle.refused(circle.ann, send).problem
    assert (problem.code, problem.status, problem.transient) == (code, status, False)
    assert circle.counts() == NOTHING
    assert circle.accepted(circle.ann, make_send()).status == 201


def test_a_body_of_exactly_the_limit_is_taken(circle: Circle) -> None:
    assert circle.accepted(circle.ann, make_send(body=b"x" * circle.policy.inline_bytes_max)).status == 201


def test_b1_the_limiter_refuses_for_a_while_and_leaves_no_id(circle: Circle) -> None:
    set_policy(circle, rate_messages=2)
    for number in range(2):
        circle.accepted(circle.ann, make_send(f"c{number}"))
    refused = circle.refused(circle.ann, make_send("c2"))
    assert (refused.problem.code, refused.problem.status, refused.problem.transient) == ("RATE_LIMITED", 429, True)
    assert refused.retry_after_ms is not None
    assert 0 < refused.retry_after_ms <= circle.policy.rate_window_ms
    assert circle.accepted(circle.bob, make_send("c2", ref=key("ann"))).status == 201, (
        "each member has a budget of its own"
    )
    circle.clock.advance(refused.retry_after_ms / 1000)
    assert circle.accepted(circle.ann, make_send("c2")).status == 201


def test_b1_a_retry_of_what_was_counted_is_not_counted_again(circle: Circle) -> None:
    set_policy(circle, rate_messages=2)
    lost = make_send("lost", "topic", "deploy")
    for _ in range(5):
        assert circle.refused(circle.ann, lost).problem.code == "NO_SUCH_DESTINATION"
    assert circle.accepted(circle.ann, make_send("c1")).status == 201
    assert circle.refused(circle.ann, make_send("c2")).problem.code == "RATE_LIMITED"


def test_b2_an_unknown_recipient_is_refused_and_the_id_is_free(circle: Circle) -> None:
    for ref in (key("eve"), key("nobody"), "*", "'; DROP TABLE member; --"):
        problem = circle.refused(circle.ann, make_send(ref=ref)).problem
        assert (problem.code, problem.status) == ("NO_SUCH_DESTINATION", 404)
    assert circle.counts() == NOTHING
    assert circle.accepted(circle.ann, make_send()).status == 201


def test_b2_a_member_who_left_gets_nothing_more(circle: Circle) -> None:
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.bob.member_id, "left"))
    assert circle.refused(circle.ann, make_send()).problem.code == "NO_SUCH_DESTINATION"


def test_b2_a_topic_must_exist_and_the_sender_be_subscribed(circle: Circle) -> None:
    send = make_send(kind="topic", ref="deploy")
    assert circle.refused(circle.ann, send).problem.code == "NO_SUCH_DESTINATION"
    circle.store.call(lambda tx: subscribe(tx, circle.mesh_id, circle.bob.member_id, "deploy"))
    problem = circle.refused(circle.ann, send).problem
    assert (problem.code, problem.status) == ("NOT_SUBSCRIBED", 403)
    assert circle.counts() == NOTHING
    circle.store.call(lambda tx: subscribe(tx, circle.mesh_id, circle.ann.member_id, "deploy"))
    assert circle.accepted(circle.ann, send).recipients == 1


def test_a_topic_reaches_its_subscribers_but_not_the_sender(circle: Circle) -> None:
    for member in (circle.ann, circle.bob, circle.cid):
        circle.store.call(lambda tx, member=member: subscribe(tx, circle.mesh_id, member.member_id, "deploy"))
    outcome = circle.offer(circle.ann, make_send(kind="topic", ref="deploy"))
    assert outcome.woken == (circle.bob.member_id, circle.cid.member_id)
    assert circle.deliveries() == [("bob", "queued", 0), ("cid", "queued", 0)]


def test_everybody_is_everybody_else_in_this_mesh(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send(kind="queue", ref="*"))
    assert [name for name, _, _ in circle.deliveries()] == ["bob", "cid"]


def test_a_group_reaches_those_below_it_and_nobody_else(circle: Circle) -> None:
    for member, group in ((circle.bob, "a"), (circle.bob, "a/b"), (circle.cid, "a/b/c"), (circle.ann, "ab")):
        circle.store.call(lambda tx, m=member, g=group: join_group(tx, circle.mesh_id, m.member_id, g))
    assert circle.accepted(circle.ann, make_send("c1", "queue", "@a")).recipients == 2
    assert circle.accepted(circle.ann, make_send("c2", "queue", "@a/b/c")).recipients == 1
    assert circle.refused(circle.ann, make_send("c3", "queue", "@a%")).problem.code == "NO_SUCH_DESTINATION"
    assert circle.accepted(circle.ann, make_send("c4", "queue", "@ab")).recipients == 0


def test_who_blocks_a_sender_is_skipped_by_many_and_refuses_one(circle: Circle) -> None:
    circle.store.call(lambda tx: grant(tx, circle.mesh_id, circle.bob.member_id, circle.ann.member_id, []))
    for member in (circle.ann, circle.bob, circle.cid):
        circle.store.call(lambda tx, m=member: subscribe(tx, circle.mesh_id, m.member_id, "deploy"))
        circle.store.call(lambda tx, m=member: join_group(tx, circle.mesh_id, m.member_id, "a"))
    problem = circle.refused(circle.ann, make_send("dm")).problem
    assert (problem.code, problem.status) == ("RECIPIENT_REFUSES", 403)
    circle.accepted(circle.ann, make_send("topic", "topic", "deploy"))
    circle.accepted(circle.ann, make_send("all", "queue", "*"))
    circle.accepted(circle.ann, make_send("group", "queue", "@a"))
    assert [name for name, _, _ in circle.deliveries()] == ["cid"] * 3
    assert circle.accepted(circle.cid, make_send("dm")).recipients == 1, "others are not blocked"


@pytest.mark.parametrize(
    ("allowed", "kind", "ref"), [("dm", "dm", ""), ("topic", "topic", "deploy"), ("broadcast", "queue", "*")]
)
def test_a_grant_of_one_capability_lets_only_that_pass(circle: Circle, allowed: str, kind: str, ref: str) -> None:
    for member in (circle.ann, circle.bob):
        circle.store.call(lambda tx, m=member: subscribe(tx, circle.mesh_id, m.member_id, "deploy"))
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.cid.member_id, "left"))
    circle.store.call(lambda tx: grant(tx, circle.mesh_id, circle.bob.member_id, circle.ann.member_id, [allowed]))
    for number, (each_kind, each_ref) in enumerate([("dm", ""), ("topic", "deploy"), ("queue", "*")]):
        answer = circle.offer(circle.ann, make_send(f"c{number}", each_kind, each_ref)).answer
        passed = isinstance(answer, Accepted) and answer.recipients == 1
        assert passed == (each_kind == kind)
    assert len(circle.claim(circle.bob)) == 1


def test_mentions_mark_the_deliveries_of_those_who_are_mentioned(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send(kind="queue", ref="*", mentions=[key("cid"), key("eve")]))
    assert [push.mentioned for push in circle.claim(circle.bob)] == [False]
    assert [push.mentioned for push in circle.claim(circle.cid)] == [True]
    assert circle.rows("SELECT mentioned_id FROM mention_index") == [(circle.cid.member_id,)]


def test_what_is_sent_to_a_key_that_was_rotated_out_reaches_its_owner(circle: Circle) -> None:
    circle.store.call(lambda tx: rotate_key(tx, circle.mesh_id, circle.bob.member_id, key("bob again")))
    circle.accepted(circle.ann, make_send("c1", ref=key("bob")))
    circle.accepted(circle.ann, make_send("c2", ref=key("bob again")))
    assert len(circle.claim(circle.bob)) == 2


def test_what_was_sealed_under_a_key_that_was_replaced_since_is_of_that_key(circle: Circle) -> None:
    old = circle.ann.pubkey
    circle.store.call(lambda tx: rotate_key(tx, circle.mesh_id, circle.ann.member_id, key("ann's next")))
    circle.accepted(circle.ann, make_send("before", sender_key=old))
    circle.accepted(circle.ann, make_send("after", sender_key=key("ann's next")))
    circle.accepted(circle.ann, make_send("silent"))
    pushed = {each.message.client_message_id: each.message.sender for each in circle.claim(circle.bob)}
    assert pushed == {"before": old, "after": key("ann's next"), "silent": key("ann's next")}


@pytest.mark.parametrize("name", ["bob", "eve", "nobody"])
def test_nobody_sends_under_a_key_that_was_never_theirs(circle: Circle, name: str) -> None:
    refused = circle.refused(circle.ann, make_send("c1", sender_key=key(name)))
    assert (refused.problem.code, refused.problem.details["field"]) == ("INVALID_INPUT", "sender_key")
    assert circle.accepted(circle.ann, make_send("c1")).status == 201, "the id is free"


def test_a_full_mesh_takes_nothing_more_for_now_and_keeps_no_id(circle: Circle) -> None:
    circle.store.call(lambda tx: tx.run("UPDATE mesh SET bytes_max = 7 WHERE mesh_id = ?", circle.mesh_id))
    assert circle.accepted(circle.ann, make_send("c1")).status == 201
    refused = circle.refused(circle.ann, make_send("c2"))
    assert (refused.problem.code, refused.problem.transient) == ("QUOTA_EXCEEDED", True)
    assert refused.retry_after_ms is not None
    assert circle.counts() == {**dict.fromkeys(NOTHING, 1), "mention_index": 0}


def test_a_batch_commits_together_and_each_has_its_own_answer(circle: Circle) -> None:
    sends = [
        make_send("c1"),
        make_send("c2", ref=key("nobody")),
        make_send("c1"),
        make_send("c3"),
        make_send("c1", body=b"?"),
    ]
    outcomes = accept(circle.store, [circle.incoming(circle.ann, each) for each in sends])
    answers = [each.value.answer for each in outcomes if each.value is not None]
    assert [getattr(each, "status", None) or each.problem.status for each in answers] == [201, 404, 200, 201, 409]  # type: ignore[union-attr]
    numbers = [each.history_id for each in answers if isinstance(each, Accepted) and not each.duplicate]
    assert numbers == sorted(numbers)
    assert circle.counts()["message"] == 2


def answers_to(circle: Circle, *sends: tuple[Member, Send]) -> list[int]:
    """The statuses of what is offered in one batch."""
    outcomes = accept(circle.store, [circle.incoming(sender, send) for sender, send in sends])
    answers = [each.value.answer for each in outcomes if each.value is not None]
    return [each.status if isinstance(each, Accepted) else each.problem.status for each in answers]


def test_messages_of_one_batch_share_a_budget_in_their_order(circle: Circle) -> None:
    set_policy(circle, rate_messages=2)
    lost, same = make_send("lost", "topic", "none"), make_send("c1")
    sends = [(circle.ann, each) for each in (lost, same, same, make_send("c2"), lost)]
    bob = (circle.bob, make_send("c1", ref=key("ann")))
    assert answers_to(circle, *sends, bob) == [404, 201, 200, 429, 404, 201]
    assert circle.rows("SELECT used FROM rate_budget ORDER BY used") == [(1,), (2,)]


def test_messages_of_one_batch_share_a_mesh_of_so_many_bytes(circle: Circle) -> None:
    circle.store.call(lambda tx: tx.run("UPDATE mesh SET bytes_max = 12 WHERE mesh_id = ?", circle.mesh_id))
    sends = [make_send("lost", ref=key("nobody")), *(make_send(f"c{number}") for number in range(3))]
    eve = (circle.eve, make_send("c1", "queue", "*"))
    assert answers_to(circle, *((circle.ann, each) for each in sends), eve) == [404, 201, 201, 503, 201]
    stored = circle.rows("SELECT stored_bytes FROM mesh ORDER BY slug")
    assert stored == [(5,), (10,)]


def test_one_batch_goes_in_all_directions(circle: Circle) -> None:
    for member in (circle.ann, circle.bob, circle.cid):
        circle.store.call(lambda tx, m=member: subscribe(tx, circle.mesh_id, m.member_id, "deploy"))
    circle.store.call(lambda tx: join_group(tx, circle.mesh_id, circle.cid.member_id, "a/b"))
    sends = [
        (circle.ann, make_send("c1", "topic", "deploy", mentions=[key("cid"), key("eve")])),
        (circle.bob, make_send("c1", "topic", "deploy", key_epoch=2, reply_to="bm_1")),
        (circle.ann, make_send("c2", "queue", "@a")),
        (circle.ann, make_send("c3", "queue", "nobody")),
        (circle.eve, make_send("c1", "dm", key("ann"))),
        (circle.bob, make_send("c2", "queue", "*", mentions=[key("cid"), key("cid")])),
        (circle.cid, make_send("c1", "dm", key("bob"))),
    ]
    assert answers_to(circle, *sends) == [201, 201, 201, 400, 404, 201, 201]
    got = {member.display_name: circle.claim(member) for member in (circle.ann, circle.bob, circle.cid)}
    senders = {name: [(push.message.sender_name, push.mentioned) for push in got[name]] for name in got}
    assert senders["ann"] == [("bob", False), ("bob", False)]
    assert senders["bob"] == [("ann", False), ("cid", False)]
    assert senders["cid"] == [("ann", True), ("bob", False), ("ann", False), ("bob", True)]
    assert [push.message.key_epoch for push in got["ann"]] == [2, None]
    assert len(circle.rows("SELECT 1 FROM mention_index")) == 2


def test_a_rule_that_raises_costs_its_neighbours_nothing(store: BrokerStore, circle: Circle) -> None:
    def fail(tx: Tx) -> None:
        tx.run("UPDATE mesh SET name = 'gone'")
        raise InvalidInput("no")

    def name(tx: Tx) -> object:
        return tx.one("SELECT name FROM mesh WHERE mesh_id = ?", circle.mesh_id)

    first, second, third = store.commit([name, fail, name])
    assert isinstance(second.error, InvalidInput)
    assert (first.value, third.value) == (("Red",), ("Red",))
    with pytest.raises(InvalidInput):
        store.call(fail)


def test_ids_grow_and_a_history_number_is_never_given_again(circle: Circle) -> None:
    answers = [circle.accepted(circle.ann, make_send(f"c{number}")) for number in range(3)]
    ids = [each.broker_message_id for each in answers]
    assert ids == sorted(set(ids))
    for table in ("mention_index", "delivery_queue", "message", "client_message_dedupe", "message_history"):
        circle.store.call(lambda tx, table=table: tx.run(f"DELETE FROM {table}"))
    assert circle.accepted(circle.ann, make_send("c9")).history_id > answers[-1].history_id


@pytest.mark.parametrize("text", ["'; DROP TABLE message; --", "%s", "?", '"', "\\", "é\u2028", "a" * 200])
def test_any_text_of_a_member_is_a_value_and_nothing_else(circle: Circle, text: str) -> None:
    circle.store.call(lambda tx: subscribe(tx, circle.mesh_id, circle.ann.member_id, text))
    circle.store.call(lambda tx: subscribe(tx, circle.mesh_id, circle.bob.member_id, text))
    circle.accepted(circle.ann, make_send("c1", "topic", text, meta={text: text}))
    (push,) = circle.claim(circle.bob)
    assert (push.message.ref, push.message.meta) == (text, {text: text})


def dataclasses_replace(send: Send, **changes: object) -> Send:
    fields = {name: getattr(send, name) for name in send.__struct_fields__}
    return Send(**{**fields, **changes})  # type: ignore[arg-type]
