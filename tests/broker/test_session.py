"""The machine of one connection: handshake, sending, delivering, time, and its many ends."""

import dataclasses

import pytest

from parley.broker.calls import AcknowledgeDeliveries
from parley.broker.rules.members import end_membership, rotate_key
from parley.broker.rules.topics import join_group, subscribe
from parley.broker.session import Session
from parley.core.errors import InvalidInput, ServiceUnavailable
from parley.sqlite import Outcome
from parley.wire.broker import (
    Accepted,
    Answer,
    Challenge,
    DeliveryAck,
    DeliveryAcked,
    DestinationKind,
    ErrorFrame,
    Features,
    FromDaemon,
    Negotiate,
    Notice,
    Ping,
    Pong,
    Push,
    RefusedSend,
    Request,
    Send,
    Welcome,
)
from parley.wire.mesh_methods import METHODS
from tests.broker.driven_mesh import REQUIRED, DrivenMesh, Line, pubkey_of, signed_hello
from tests.conformance.broker.circle import make_send


def ack(*pushes: Push) -> DeliveryAck:
    return DeliveryAck([DeliveryAcked(each.delivery_id) for each in pushes])


def to(name: str, client_id: str = "c1", **more: object) -> Send:
    return make_send(client_id, "dm", pubkey_of(name), **more)  # type: ignore[arg-type]


def set_policy(driven: DrivenMesh, **changes: int) -> None:
    driven.store.policy = dataclasses.replace(driven.store.policy, **changes)
    driven.setting = dataclasses.replace(driven.setting, policy=driven.store.policy)


def ended(line: Line) -> tuple[int | None, str]:
    """The close code, and the code of the problem that came before it."""
    return line.closed, line.last(ErrorFrame).problem.code


def test_the_broker_speaks_first_and_the_handshake_ends_with_its_features(driven: DrivenMesh) -> None:
    line = driven.connect()
    assert line.heard == [Challenge(line.challenge.nonce, driven.store.broker_id, newest=2)]
    line.say(signed_hello(driven.ann, line.challenge))
    welcome = line.last(Welcome)
    assert (welcome.member_id, welcome.role, welcome.mesh_slug) == (driven.ann.member_id, "owner", "red")
    assert (welcome.window, welcome.lease_ms) == (driven.setting.policy.window, 30_000)
    line.say(Negotiate(REQUIRED, ["max_payload", "telepathy"]))
    features = line.last(Features)
    assert set(features.supported) == {*REQUIRED, "max_payload"}
    assert features.supported["client_message_id_dedupe"].params == {
        "version": 2,
        "mode": "retention_scoped",
        "dedupe_retention_days": 365,
        "request_fingerprint": True,
    }
    assert features.missing_required == []
    assert line.session.phase == "ready"


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": "1" * 128},
        {"instance_id": "other"},
        {"host_fingerprint": "other"},
        {"mesh_id": "mesh_other"},
        {"member_id": "mem_other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_hello_that_was_changed_after_it_was_signed_is_refused(driven: DrivenMesh, changes: dict[str, str]) -> None:
    line = driven.connect()
    line.say(signed_hello(driven.ann, line.challenge, **changes))
    assert ended(line) == (4401, "HELLO_REFUSED")


def test_a_hello_cannot_be_played_again_on_another_connection_or_at_another_broker(driven: DrivenMesh) -> None:
    first, second = driven.connect(), driven.connect()
    overheard = signed_hello(driven.ann, first.challenge)
    second.say(overheard)
    assert ended(second) == (4401, "HELLO_REFUSED")
    elsewhere = driven.connect()
    elsewhere.say(signed_hello(driven.ann, Challenge(elsewhere.challenge.nonce, "another broker")))
    assert ended(elsewhere) == (4401, "HELLO_REFUSED")


def test_who_signs_with_a_key_that_is_not_the_members_is_refused(driven: DrivenMesh) -> None:
    line = driven.connect()
    line.say(signed_hello(driven.ann._replace(pubkey=pubkey_of("eve"), display_name="eve"), line.challenge))
    assert ended(line) == (4401, "HELLO_REFUSED")


def test_an_unknown_mesh_looks_like_an_unknown_member(driven: DrivenMesh) -> None:
    line = driven.connect()
    line.say(signed_hello(driven.ann._replace(mesh_id="mesh_none"), line.challenge))
    assert ended(line) == (4401, "HELLO_REFUSED")


@pytest.mark.parametrize("how", ["left", "revoked", "banned"])
def test_who_is_no_member_any_more_is_told_so(driven: DrivenMesh, how: str) -> None:
    driven.store.call(lambda tx: end_membership(tx, driven.mesh_id, driven.bob.member_id, how))  # type: ignore[arg-type]
    line = driven.connect()
    line.say(signed_hello(driven.bob, line.challenge))
    assert ended(line) == (4002, "MEMBERSHIP_ENDED")
    assert line.last(ErrorFrame).close_code == 4002


def test_a_key_that_was_rotated_out_opens_nothing(driven: DrivenMesh) -> None:
    driven.store.call(lambda tx: rotate_key(tx, driven.mesh_id, driven.bob.member_id, pubkey_of("bob again")))
    line = driven.connect()
    line.say(signed_hello(driven.bob, line.challenge))
    assert ended(line) == (4401, "HELLO_REFUSED")


def test_a_required_feature_that_is_missing_ends_the_connection(driven: DrivenMesh) -> None:
    line = driven.connect()
    line.say(signed_hello(driven.ann, line.challenge))
    line.say(Negotiate([*REQUIRED, "telepathy"]))
    assert line.last(Features).missing_required == ["telepathy"]
    assert ended(line) == (4010, "FEATURE_UNAVAILABLE")
    assert line.last(ErrorFrame).problem.details["feature"] == "telepathy"


def test_a_daemon_of_another_protocol_is_told_so(driven: DrivenMesh) -> None:
    line = driven.connect()
    line.say(signed_hello(driven.ann, line.challenge, protocol=2))
    assert ended(line) == (4010, "FEATURE_UNAVAILABLE")


@pytest.mark.parametrize(
    "frame", [Negotiate([]), to("bob"), ack(), Request(1, "peers")], ids=lambda frame: frame.__struct_config__.tag
)
def test_nothing_is_done_for_who_has_not_greeted(driven: DrivenMesh, frame: FromDaemon) -> None:
    line = driven.connect()
    line.say(frame)
    assert ended(line) == (1002, "INVALID_INPUT")


def test_a_second_hello_ends_the_connection(driven: DrivenMesh) -> None:
    line = driven.ready(driven.ann)
    line.say(signed_hello(driven.ann, Challenge("0" * 64, driven.store.broker_id)))
    assert ended(line) == (1002, "INVALID_INPUT")


def test_a_message_is_answered_and_pushed_to_its_recipient(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.say(to("bob"))
    assert ann.last(Accepted).status == 201
    push = bob.last(Push)
    assert (push.message.client_message_id, push.message.sender_id) == ("c1", driven.ann.member_id)
    bob.say(ack(push))
    assert bob.session.unacknowledged == 0
    ann.say(to("bob"))
    assert ann.last(Accepted).duplicate
    assert len(bob.all(Push)) == 1


@pytest.mark.parametrize(("kind", "ref"), [("topic", "alerts"), ("queue", "@dev"), ("queue", "*")])
def test_who_is_connected_is_pushed_to_at_once_and_the_same_as_who_comes_later(
    driven: DrivenMesh, kind: DestinationKind, ref: str
) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    for member in (driven.ann, driven.bob, driven.cid):
        driven.store.call(lambda tx, each=member: subscribe(tx, driven.mesh_id, each.member_id, "alerts"))
        driven.store.call(lambda tx, each=member: join_group(tx, driven.mesh_id, each.member_id, "dev"))
    ann.say(make_send("c1", kind, ref, reply_to="bm_0", meta={"a": 1}))
    live = bob.last(Push).message
    assert (live.client_message_id, live.sender_name, live.ref, live.reply_to) == ("c1", "ann", ref, "bm_0")
    cid = driven.connect()
    cid.say(signed_hello(driven.cid, cid.challenge))
    cid.say(Negotiate(REQUIRED))
    assert cid.last(Push).message == live


def test_no_method_runs_what_a_member_wrote(driven: DrivenMesh) -> None:
    ann = driven.ready(driven.ann)
    assert ann.code("mesh_query", sql="SELECT * FROM mesh") == "NOT_FOUND"
    assert not {"sql", "query", "statement"} & {
        field for method in METHODS.values() for field in method.params.__struct_fields__
    }


def test_what_came_while_nobody_was_there_is_pushed_at_the_next_connection(driven: DrivenMesh) -> None:
    ann = driven.ready(driven.ann)
    for number in range(3):
        ann.say(to("bob", f"c{number}"))
    bob = driven.ready(driven.bob)
    assert bob.session.unacknowledged == 3


def test_no_more_is_pushed_than_the_window_holds(driven: DrivenMesh) -> None:
    set_policy(driven, window=2)
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    for number in range(5):
        ann.say(to("bob", f"c{number}"))
    assert len(bob.all(Push)) == 2
    bob.say(ack(bob.all(Push)[0]))
    assert len(bob.all(Push)) == 3
    bob.say(ack(*bob.all(Push)))
    bob.say(ack(*bob.all(Push)))
    assert [push.message.client_message_id for push in bob.all(Push)] == [f"c{number}" for number in range(5)]


def test_what_is_not_acknowledged_comes_again_when_its_lease_is_over(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.say(to("bob"))
    for _ in range(3):
        driven.tick(9)
        bob.say(Ping(1))
    assert [push.attempt for push in bob.all(Push)] == [1]
    driven.tick(3)
    assert [push.attempt for push in bob.all(Push)] == [1, 2]


def test_what_a_lost_connection_had_goes_to_the_next_at_once(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.say(to("bob"))
    bob.hang_up()
    assert [push.attempt for push in driven.ready(driven.bob).all(Push)] == []
    again = driven.connect()
    again.say(signed_hello(driven.bob, again.challenge))
    again.say(Negotiate(REQUIRED))
    assert again.last(Push).attempt == 3


def test_a_member_cannot_acknowledge_for_another(driven: DrivenMesh) -> None:
    ann, bob, cid = driven.ready(driven.ann), driven.ready(driven.bob), driven.ready(driven.cid)
    ann.say(to("bob"))
    cid.say(ack(bob.last(Push)))
    bob.hang_up()
    again = driven.connect()
    again.say(signed_hello(driven.bob, again.challenge))
    again.say(Negotiate(REQUIRED))
    assert again.last(Push).message.client_message_id == "c1"


def test_no_more_is_acknowledged_at_once_than_a_few_windows_hold(driven: DrivenMesh) -> None:
    """Whoever acknowledges without end, whatever it is, would have everybody else wait for the database."""
    set_policy(driven, window=2)
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.say(to("bob", "c1"))
    bob.held = []
    nobodys = DeliveryAck([DeliveryAcked(number) for number in range(1_000_000, 1_000_003)])
    for _ in range(100):
        bob.say(nobodys)
    asked = [ask.rule for ask in bob.held if isinstance(ask.rule, AcknowledgeDeliveries)]
    assert sum(len(rule.deliveries) for rule in asked) == 8
    bob.settle()
    bob.say(ack(bob.last(Push)))
    assert bob.session.unacknowledged == 0


def test_more_sends_than_the_window_are_refused_for_a_moment(driven: DrivenMesh) -> None:
    set_policy(driven, window=2)
    ann = driven.ready(driven.ann)
    ann.held = []
    for number in range(3):
        ann.say(to("bob", f"c{number}"))
    refused = ann.last(RefusedSend)
    assert (refused.client_message_id, refused.problem.code) == ("c2", "RATE_LIMITED")
    assert refused.retry_after_ms == 1000
    ann.settle()
    assert len(ann.all(Accepted)) == 2
    ann.say(to("bob", "c2"))
    assert ann.last(Accepted).client_message_id == "c2"


def test_a_store_that_fails_refuses_for_now_and_its_claims_are_made_again(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.held = []
    ann.say(to("bob"))
    (ask,) = ann.held
    ann.held = None
    full = ServiceUnavailable("The disk is full", reason="disk_full", retry_after=5)
    ann.perform(ann.session.on_result(ask.token, Outcome(error=full), driven.now))
    assert (ann.last(RefusedSend).problem.code, ann.last(RefusedSend).retry_after_ms) == ("SERVICE_UNAVAILABLE", 5000)
    bob.held = []
    ann.say(to("bob"))
    (claim,) = bob.held
    bob.held = None
    bob.perform(bob.session.on_result(claim.token, Outcome(error=full), driven.now))
    assert bob.all(Push) == []
    for _ in range(4):
        driven.tick(9)
        bob.say(Ping(1))
    assert len(bob.all(Push)) == 1


def test_a_fault_of_ours_is_told_without_its_cause(driven: DrivenMesh) -> None:
    ann = driven.ready(driven.ann)
    ann.held = []
    ann.say(to("bob"))
    (ask,) = ann.held
    ann.perform(ann.session.on_result(ask.token, Outcome(error=ZeroDivisionError("secret")), driven.now))
    problem = ann.last(RefusedSend).problem
    assert (problem.code, problem.status, problem.error) == ("INTERNAL_ERROR", 500, "Internal error")


def test_a_ping_is_answered_and_silence_is_asked_about_and_then_ended(driven: DrivenMesh) -> None:
    line = driven.ready(driven.ann)
    line.say(Ping(42))
    assert line.last(Pong).id == 42
    driven.tick(30)
    assert len(line.all(Ping)) == 1
    line.say(Pong(line.last(Ping).id))
    driven.tick(29)
    assert len(line.all(Ping)) == 1
    driven.tick(46)
    assert ended(line) == (1008, "SERVICE_UNAVAILABLE")
    assert driven.store.call(lambda tx: tx.all("SELECT * FROM connection")) == []


def test_who_is_not_ready_in_time_is_sent_away(driven: DrivenMesh) -> None:
    line = driven.connect()
    driven.tick(9.9)
    assert line.closed is None
    driven.tick(0.1)
    assert line.closed == 1008


def test_what_cannot_be_read_ends_a_handshake_but_not_a_conversation(driven: DrivenMesh) -> None:
    line = driven.connect()
    line.perform(line.session.on_unreadable(InvalidInput("what?"), driven.now))
    assert line.closed == 1002
    line = driven.ready(driven.ann)
    line.perform(line.session.on_unreadable(InvalidInput("what?"), driven.now))
    assert line.closed is None
    assert line.last(ErrorFrame).close_code is None


def test_requests_are_answered_by_their_number(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.say(Request(3, "peers"))
    answer = ann.last(Answer)
    assert answer.id == 3
    assert {peer["display_name"]: peer["connected"] for peer in answer.result["peers"]} == {
        "ann": True,
        "bob": True,
        "cid": False,
    }
    assert ann.code("fly") == "NOT_FOUND"
    assert ann.code("subscribe", topic=3) == "INVALID_INPUT"
    assert bob.code("ban", member_id=driven.cid.member_id) == "NOT_ALLOWED"


def test_too_many_requests_at_once_are_refused(driven: DrivenMesh) -> None:
    ann = driven.ready(driven.ann)
    ann.held = []
    for number in range(65):
        ann.say(Request(number, "peers"))
    problem = ann.last(Answer).problem
    assert problem is not None
    assert problem.code == "RATE_LIMITED"


def test_a_member_that_asks_without_end_is_slowed_down_and_allowed_again(driven: DrivenMesh) -> None:
    set_policy(driven, requests_per_second=2)
    ann = driven.ready(driven.ann)
    for _ in range(20):
        ann.result("grants")
    assert ann.code("grants") == "RATE_LIMITED"
    driven.tick(1)
    for _ in range(2):
        ann.result("grants")
    assert ann.code("grants") == "RATE_LIMITED"


def test_a_ban_closes_the_members_connections_and_tells_the_others(driven: DrivenMesh) -> None:
    ann, bob, cid = driven.ready(driven.ann), driven.ready(driven.bob), driven.ready(driven.cid)
    assert ann.result("ban", member_id=driven.bob.member_id)["state"] == "banned"
    assert ended(bob) == (4002, "MEMBERSHIP_ENDED")
    notice = cid.last(Notice)
    assert (notice.name, notice.data["member_id"], notice.data["key_epoch"]) == ("member_gone", driven.bob.member_id, 2)


def test_a_member_that_was_removed_elsewhere_is_found_out_by_its_next_message(driven: DrivenMesh) -> None:
    bob = driven.ready(driven.bob)
    driven.store.call(lambda tx: end_membership(tx, driven.mesh_id, driven.bob.member_id, "revoked"))
    bob.say(to("ann"))
    assert bob.last(RefusedSend).problem.code == "MEMBERSHIP_ENDED"
    assert ended(bob) == (4002, "MEMBERSHIP_ENDED")


def test_a_member_that_was_removed_elsewhere_is_told_nothing_more(driven: DrivenMesh) -> None:
    bob = driven.ready(driven.bob)
    driven.store.call(lambda tx: end_membership(tx, driven.mesh_id, driven.bob.member_id, "banned"))
    assert {bob.code(method) for method in ("members", "peers", "topics")} == {"MEMBERSHIP_ENDED"}


def test_who_stops_being_busy_gets_what_has_waited(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    bob.result("set_presence", status="dnd")
    ann.say(to("bob"))
    assert bob.all(Push) == []
    bob.result("set_presence", status="idle")
    assert len(bob.all(Push)) == 1


def test_what_a_daemon_lost_it_can_have_again(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.say(to("bob"))
    bob.say(ack(bob.last(Push)))
    assert bob.result("redeliver") == {"deliveries": 1}
    assert [push.attempt for push in bob.all(Push)] == [1, 2]


def test_a_broker_that_stops_says_so(driven: DrivenMesh) -> None:
    line = driven.ready(driven.ann)
    line.perform(line.session.on_stopping())
    assert ended(line) == (1001, "SHUTTING_DOWN")
    line.say(Ping(1))
    assert line.all(Pong) == []


def test_what_was_asked_for_before_a_connection_ended_still_reaches_others(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    ann.held = []
    ann.say(to("bob"))
    held, ann.held = ann.held, None
    ann.hang_up()
    ann.perform(list(held))
    assert len(bob.all(Push)) == 1
    assert ann.all(Accepted) == []


def test_what_was_claimed_for_a_connection_that_ended_meanwhile_is_given_back(driven: DrivenMesh) -> None:
    ann, bob = driven.ready(driven.ann), driven.ready(driven.bob)
    bob.held = []
    ann.say(to("bob"))
    held, bob.held = bob.held, None
    bob.hang_up()
    bob.perform(list(held))
    assert driven.store.call(lambda tx: tx.all("SELECT state FROM delivery_queue")) == [("queued",)]


def test_a_greeting_that_ends_meanwhile_leaves_no_connection(driven: DrivenMesh) -> None:
    line = driven.connect()
    line.held = []
    line.say(signed_hello(driven.ann, line.challenge))
    held, line.held = line.held, None
    line.hang_up()
    line.perform(list(held))
    assert driven.store.call(lambda tx: tx.all("SELECT * FROM connection")) == []


def test_a_session_is_only_what_it_was_told(driven: DrivenMesh) -> None:
    """The same frames, results and times give the same effects."""
    sessions = [Session(driven.setting, "conn", "0" * 64, 0) for _ in range(2)]
    hello = signed_hello(driven.ann, Challenge("0" * 64, driven.store.broker_id))
    first, second = ([each.open(), each.on_frame(hello, 5), each.on_timer(10_000)] for each in sessions)
    assert first == second
