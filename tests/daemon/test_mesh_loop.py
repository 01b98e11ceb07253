"""The machine of one mesh over a real outbox. Each defect that daemons of this kind have shipped has its test here."""

import apsw
import pytest

from parley.daemon.drain import ANSWER_SECONDS
from parley.daemon.effects import Effect, Heed, Reply, Settle, Store, Take, Tell
from parley.daemon.outbox.accept import Destination
from parley.daemon.outbox.sending import RETRY_MS_MAX, SealAgain, take_due
from parley.wire.broker import Answer, DeliveryAck, DeliveryAcked, Notice, Problem, Push, RefusedSend, Request, Send
from tests.daemon.machines import Bench, accepted, frames, refused, sent
from tests.daemon.world import BOB, DAY, commit, message, push, put


@pytest.fixture
def bench(outbox: apsw.Connection) -> Bench:
    return Bench(outbox)


def test_a_message_is_sent_answered_and_done(bench: Bench) -> None:
    bench.connect()
    assert sent(bench.put("m-1")) == ["m-1"]
    assert bench.row("m-1").status == "inflight"
    effects = bench.say(accepted("m-1"))
    assert bench.row("m-1").status == "done"
    assert [effect.kind for effect in effects if isinstance(effect, Tell)] == ["outbox_done"]


def test_what_waited_is_sent_when_the_link_is_ready(bench: Bench) -> None:
    assert bench.put("m-1") == []
    assert sent(bench.connect()) == ["m-1"]


def test_nothing_is_taken_while_the_link_is_down_so_no_send_waits_on_a_socket(bench: Bench) -> None:
    for step in ("idle", "connecting"):
        assert not any(isinstance(effect, Take) for effect in bench.put(f"m-{step}"))
        bench.run(bench.loop.start)
    bench.run(bench.loop.on_closed, None, "refused")
    assert not any(isinstance(effect, Take) for effect in bench.put("m-3"))
    assert bench.row("m-3").status == "pending"


def test_one_mesh_that_is_offline_does_not_hold_another_up(outbox: apsw.Connection) -> None:
    offline, online = Bench(outbox, mesh_id="mesh_1"), Bench(outbox, mesh_id="mesh_2")
    offline.put("m-1")
    online.connect()
    assert sent(online.put("m-2", destination=Destination("mesh_2", "bob", "dm", BOB))) == ["m-2"]


def test_no_more_than_the_window_is_in_flight(bench: Bench) -> None:
    for number in range(7):
        bench.put(f"m-{number}")
    assert sent(bench.connect(window=4)) == ["m-0", "m-1", "m-2", "m-3"]
    assert sent(bench.say(accepted("m-1"))) == ["m-4"]
    assert bench.loop.drain.in_flight == 4


def test_metadata_and_the_reply_travel(bench: Bench) -> None:
    bench.connect()
    (frame,) = [each for each in frames(bench.put("m-1", reply_to_id="bm_0", meta={"a": 1})) if isinstance(each, Send)]
    assert frame.reply_to == "bm_0"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_a_refusal_that_will_not_pass_kills_the_row(bench: Bench, status: int) -> None:
    bench.connect()
    bench.put("m-1")
    effects = bench.say(refused("m-1", status))
    assert (bench.row("m-1").status, bench.row("m-1").last_error) == ("dead", f"CODE_{status}: no")
    assert [effect.kind for effect in effects if isinstance(effect, Tell)] == ["outbox_dead"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 507])
def test_a_refusal_that_will_pass_backs_off_whatever_its_text_says(bench: Bench, status: int) -> None:
    bench.connect()
    bench.put("m-1")
    bench.say(refused("m-1", status))
    row = bench.row("m-1")
    assert (row.status, row.next_attempt_at) == ("pending", bench.clock.now_ms() + 500)
    assert sent(bench.wait()) == ["m-1"]


def test_the_problems_own_word_on_whether_it_passes_counts(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.say(refused("m-1", 403, transient=True))
    assert bench.row("m-1").status == "pending"


def test_a_wait_that_the_broker_asks_for_is_kept_by_all_rows_of_the_mesh_within_reason(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.say(refused("m-1", 429, retry_after_ms=20_000))
    assert bench.row("m-1").next_attempt_at == bench.clock.now_ms() + 20_000
    assert sent(bench.put("m-2")) == []
    assert sent(bench.wait()) == ["m-1", "m-2"]
    bench.say(refused("m-2", 503, retry_after_ms=10 * RETRY_MS_MAX))
    assert bench.row("m-2").next_attempt_at == bench.clock.now_ms() + RETRY_MS_MAX


def test_an_answer_that_does_not_come_is_a_refusal_that_passes(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    started = bench.clock.monotonic()
    bench.wait()
    assert bench.clock.monotonic() - started >= ANSWER_SECONDS
    assert bench.row("m-1").status == "pending"
    assert sent(bench.wait()) == ["m-1"]


def test_an_answer_that_comes_after_it_was_given_up_on_counts(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.wait()
    bench.say(accepted("m-1"))
    assert bench.row("m-1").status == "done"
    bench.wait()
    assert bench.loop.drain.in_flight == 0


def test_what_was_sealed_under_a_key_that_is_over_is_sealed_again_and_not_backed_off(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    over = Problem("KEY_EPOCH_OVER", "another key", 503, True)
    effects = bench.say(RefusedSend("m-1", over))
    (settled,) = [effect for effect in effects if isinstance(effect, Settle)]
    assert [type(each) for each in settled.settlements] == [SealAgain]
    assert (bench.row("m-1").status, bench.row("m-1").sealed) == ("pending", b"")
    assert bench.loop.drain.in_flight == 0
    assert sent(bench.wait()) == ["m-1"]


def test_a_refusal_that_comes_after_it_was_given_up_on_changes_nothing(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.wait()
    before = bench.row("m-1")
    bench.say(refused("m-1", 413))
    assert bench.row("m-1") == before


def test_what_was_in_flight_when_the_link_is_lost_is_sent_again_with_the_same_bytes(bench: Bench) -> None:
    bench.connect()
    first = frames(bench.put("m-1"))
    bench.run(bench.loop.on_closed, 1006, "lost")
    assert bench.row("m-1").status == "pending"
    bench.clock.advance(60)
    again = [frame for frame in frames(bench.connect()) if isinstance(frame, Send)]
    assert again == first


def test_rows_that_were_taken_while_the_link_was_lost_go_back(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.say(accepted("m-1"))
    put(bench.outbox, message("m-2"))
    assert any(isinstance(effect, Take) for effect in bench.loop.wake(bench.now))
    due = commit(bench.outbox, lambda db: take_due(db, "mesh_1", now_ms=bench.now.ms, limit=4, max_age_ms=DAY))
    bench.run(bench.loop.on_closed, 1006, "lost")
    effects = bench.run(bench.loop.on_taken, due)
    assert [type(effect) for effect in effects] == [Settle]
    assert bench.row("m-2").status == "pending"
    assert sent(bench.connect()) == ["m-2"]


def test_a_row_that_came_while_others_were_being_taken_is_not_forgotten(bench: Bench) -> None:
    bench.connect()
    put(bench.outbox, message("m-1"))
    assert any(isinstance(effect, Take) for effect in bench.loop.wake(bench.now))
    due = commit(bench.outbox, lambda db: take_due(db, "mesh_1", now_ms=bench.now.ms, limit=4, max_age_ms=DAY))
    assert bench.put("m-2") == []
    assert sent(bench.run(bench.loop.on_taken, due)) == ["m-1", "m-2"]


def test_a_row_that_backs_off_lets_later_ones_pass(bench: Bench) -> None:
    bench.connect(window=1)
    bench.put("m-1")
    bench.put("m-2")
    assert sent(bench.say(refused("m-1", 503))) == ["m-2"]


def test_a_delivery_is_stored_first_and_acknowledged_after(bench: Bench) -> None:
    bench.connect()
    delivery = push(5)
    effects = bench.say(delivery)
    assert effects == [Store((delivery,))]
    (ack,) = frames(bench.run(bench.loop.on_stored, [DeliveryAcked(5, "undecryptable")]))
    assert ack == DeliveryAck([DeliveryAcked(5, "undecryptable")])


def test_a_delivery_whose_link_is_gone_is_not_acknowledged_on_another(bench: Bench) -> None:
    bench.connect()
    bench.say(push(5))
    bench.run(bench.loop.on_closed, 1006, "lost")
    assert bench.run(bench.loop.on_stored, [DeliveryAcked(5)]) == []


def test_what_comes_before_the_link_is_ready_is_ignored(bench: Bench) -> None:
    bench.run(bench.loop.start)
    bench.run(bench.loop.on_connected)
    assert bench.say(Push(1, 1, False, push(1).message)) == []
    assert bench.say(accepted("m-1")) == []


def test_a_question_is_answered_by_the_broker(bench: Bench) -> None:
    bench.connect()
    token, effects = bench.loop.ask("members", {"a": 1}, bench.now)
    assert frames(effects) == [Request(token, "members", {"a": 1})]
    assert bench.say(Answer(token, {"members": []})) == [Reply(token, {"members": []}, None)]
    assert bench.say(Answer(token, {})) == []


@pytest.mark.parametrize("trouble", ["down", "lost", "silent"])
def test_a_question_is_always_answered(bench: Bench, trouble: str) -> None:
    if trouble != "down":
        bench.connect()
    token, effects = bench.loop.ask("members", {}, bench.now)
    if trouble == "lost":
        effects = bench.run(bench.loop.on_closed, 1006, "lost")
    if trouble == "silent":
        effects = bench.wait()
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert reply.token == token
    assert isinstance(reply.problem, Problem)
    assert (reply.problem.code, reply.problem.transient) == ("MESH_UNREACHABLE", True)


def test_a_notice_is_handed_on(bench: Bench) -> None:
    bench.connect()
    notice = Notice("peer_join", {"name": "bob"})
    assert bench.say(notice) == [Heed(notice)]


def test_a_clock_that_jumps_neither_loses_nor_floods(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.say(refused("m-1", 503))
    bench.clock.jump(-3_600_000)
    for _ in range(20):
        if sent(bench.wait()):
            break
    assert bench.row("m-1").status == "inflight"


def test_stopping_writes_down_what_was_in_flight(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.run(bench.loop.stop)
    assert bench.row("m-1").status == "pending"


def admitted(bench: Bench, client_id: str) -> list[Effect]:
    """What the machine does about a row that was written as in flight."""
    taken = put(bench.outbox, message(client_id), now_ms=bench.clock.now_ms(), in_flight=True)
    return bench.run(bench.loop.on_admitted, taken.row)


def test_a_row_that_finds_room_is_in_flight_from_the_start_and_sent_once_it_is_on_disk(bench: Bench) -> None:
    bench.connect()
    assert bench.loop.admit(bench.now)
    assert sent(admitted(bench, "m-1")) == ["m-1"]
    assert (bench.row("m-1").status, bench.row("m-1").attempts) == ("inflight", 1)
    bench.say(accepted("m-1"))
    assert bench.row("m-1").status == "done"


def test_a_row_that_was_admitted_is_tried_again_like_any_other(bench: Bench) -> None:
    bench.connect()
    assert bench.loop.admit(bench.now)
    admitted(bench, "m-1")
    bench.say(refused("m-1", 503))
    assert (bench.row("m-1").status, bench.row("m-1").attempts) == ("pending", 1)
    assert sent(bench.wait()) == ["m-1"]
    assert bench.row("m-1").attempts == 2


def test_a_row_that_was_admitted_when_the_link_is_lost_goes_back(bench: Bench) -> None:
    bench.connect()
    assert bench.loop.admit(bench.now)
    bench.run(bench.loop.on_closed, 1006, "lost")
    assert sent(admitted(bench, "m-1")) == []
    assert bench.row("m-1").status == "pending"
    assert sent(bench.connect()) == ["m-1"]


def test_no_row_is_admitted_without_a_link_or_past_the_window(bench: Bench) -> None:
    assert not bench.loop.admit(bench.now)
    bench.connect(window=2)
    assert bench.loop.admit(bench.now)
    assert bench.loop.admit(bench.now)
    assert not bench.loop.admit(bench.now)
    bench.run(bench.loop.on_admitted, None)
    assert bench.loop.admit(bench.now), "what is never written takes no room"


def test_no_row_is_admitted_before_those_that_wait(bench: Bench) -> None:
    bench.connect(window=1)
    bench.put("m-1")
    bench.put("m-2")
    put(bench.outbox, message("m-3"))
    bench.loop.wake(bench.now)
    assert sent(bench.say(accepted("m-1"))) == ["m-2"]
    assert not bench.loop.admit(bench.now)


def test_a_row_that_was_not_admitted_is_taken_when_an_admitted_one_leaves_its_room(bench: Bench) -> None:
    bench.connect(window=1)
    assert bench.loop.admit(bench.now)
    assert sent(bench.put("m-2")) == []
    assert sent(bench.run(bench.loop.on_admitted, None)) == ["m-2"]


def test_no_row_is_admitted_while_the_broker_asks_for_a_pause(bench: Bench) -> None:
    bench.connect()
    bench.put("m-1")
    bench.say(refused("m-1", 429, transient=True, retry_after_ms=5_000))
    assert not bench.loop.admit(bench.now)
    bench.clock.advance(6)
    bench.run(bench.loop.on_timer)
    bench.say(accepted("m-1"))
    assert bench.loop.admit(bench.now)
