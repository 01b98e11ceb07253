"""The feed's protocol as a state machine: each rule alone. ``test_feed_model`` drives it through random histories."""

import msgspec
import pytest

from parley.client import feed_machine as fm
from parley.client.backoff import Backoff
from parley.client.cursor import Cursor
from parley.client.feed_machine import FeedMachine, StateChange
from parley.core.errors import (
    CursorExpired,
    HostForbidden,
    HubNotRunning,
    InvalidAuth,
    InvalidInput,
    ServiceUnavailable,
    WorkspaceUnsafe,
)
from parley.core.registry import CLOSE_CODES, CloseCode
from parley.core.wire_errors import UnknownRefusal
from parley.wire.events import Entity, EventEnvelope, Hello, HelloOk, Scope, Subscriptions


def machine(
    *,
    cursor: Cursor | None = None,
    after: int | None = None,
    channels: list[str] | None = None,
    topics: list[str] | None = None,
) -> FeedMachine:
    return FeedMachine(random=lambda: 1.0, cursor=cursor, after=after, channels=channels, topics=topics)


def event(event_id: int) -> EventEnvelope:
    return EventEnvelope(event_id, "2026-01-01T00:00:00.000Z", "x.y", Scope(), {}, Entity("x", "1"))


def frame(thing: object) -> fm.Received:
    return fm.Received(msgspec.json.encode(thing).decode())


def hello_ok(latest: int = 9, *, reset: bool = False) -> fm.Received:
    return frame(HelloOk(latest, latest, "instance", reset))


def live(**options: object) -> FeedMachine:
    feed = machine(**options)  # type: ignore[arg-type]
    for given in (fm.Wanted(), fm.Located("db"), fm.Opened(), fm.Greeted(), hello_ok()):
        feed.handle(given)
    return feed


def reports(effects: fm.Effects) -> list[StateChange]:
    return [effect.change for effect in effects.first if isinstance(effect, fm.Report)]


def test_a_feed_finds_the_hub_opens_a_socket_greets_and_passes_events_on() -> None:
    feed = machine(after=4)
    assert feed.handle(fm.Wanted()).then == fm.Locate()
    assert feed.handle(fm.Located("db")).then == fm.Open()
    assert feed.handle(fm.Opened()).then == fm.Greet(Hello(4))
    assert feed.handle(fm.Greeted()).then == fm.Receive()
    welcomed = feed.handle(hello_ok())
    assert welcomed.then == fm.Receive()
    assert reports(welcomed) == [StateChange("connected", 4)]
    assert feed.handle(frame(event(5))).then == fm.Emit(event(5))
    assert feed.last_event_id == 5


def test_without_filters_the_hello_has_no_subscriptions_and_with_an_empty_one_it_asks_for_nothing() -> None:
    def greeting(**filters: list[str]) -> Hello:
        feed = machine(**filters)  # type: ignore[arg-type]
        feed.handle(fm.Wanted())
        feed.handle(fm.Located("db"))
        then = feed.handle(fm.Opened()).then
        assert isinstance(then, fm.Greet)
        return then.hello

    assert greeting() == Hello(None)
    assert greeting(channels=["general"]) == Hello(None, Subscriptions(["general"], []))
    assert greeting(channels=[]) == Hello(None, Subscriptions([], []))


def test_the_cursor_moves_when_the_consumer_asks_for_the_next_event() -> None:
    feed = live()
    assert feed.handle(frame(event(1))).first == ()
    asked = feed.handle(fm.Wanted())
    assert asked.first == (fm.Save(Cursor(1, "db")),)
    assert asked.then == fm.Receive()
    assert feed.processed() == (), "an event is processed once"


def test_an_event_that_was_passed_on_before_is_dropped() -> None:
    feed = live()
    feed.handle(frame(event(7)))
    for repeated in (7, 6, 1):
        assert feed.handle(frame(event(repeated))) == fm.Effects(fm.Receive())
    assert feed.handle(frame(event(8))).then == fm.Emit(event(8))


def test_a_lost_connection_is_told_once_and_tried_again_with_growing_waits() -> None:
    feed = live()
    feed.handle(frame(event(3)))
    feed.handle(fm.Wanted())
    lost = feed.handle(fm.Closed(1006, "gone"))
    assert lost.then == fm.Sleep(1.0)
    assert reports(lost) == [StateChange("disconnected", 3, "closed with 1006 gone")]
    waits: list[float] = []
    for _ in range(7):
        assert feed.handle(fm.Elapsed()).then == fm.Locate()
        failed = feed.handle(fm.Failed(HubNotRunning("no hub")))
        assert reports(failed) == []
        assert isinstance(failed.then, fm.Sleep)
        waits.append(failed.then.seconds)
    assert waits == [2, 4, 8, 16, 30, 30, 30]


def test_a_success_starts_the_waits_anew_and_is_reported_with_the_cursor() -> None:
    feed = live()
    feed.handle(frame(event(3)))
    for given in (fm.Closed(1006), fm.Elapsed(), fm.Failed(HubNotRunning("x")), fm.Elapsed(), fm.Located("db")):
        feed.handle(given)
    assert feed.handle(fm.Opened()).then == fm.Greet(Hello(3))
    feed.handle(fm.Greeted())
    assert reports(feed.handle(hello_ok())) == [StateChange("reconnected", 3)]
    assert feed.handle(fm.Closed(1006)).then == fm.Sleep(1.0)


def test_waits_are_jittered() -> None:
    drawn = iter([0.0, 0.5, 0.99])
    assert [Backoff(1.0, 30.0).delay(3, lambda: next(drawn)) for _ in range(3)] == [2.0, 3.0, pytest.approx(3.98)]


def test_a_feed_may_fail_for_ever() -> None:
    assert Backoff(1.0, 30.0).delay(10**9, lambda: 1.0) == 30.0


def test_a_hub_that_goes_away_is_looked_for_after_a_little_while() -> None:
    feed = live()
    gone = feed.handle(fm.Closed(1001, "Server shutting down"))
    assert gone.then == fm.Sleep(fm.RESTART_SECONDS)
    assert [change.name for change in reports(gone)] == ["disconnected"]


def test_a_hub_that_goes_away_before_it_answers_is_left_alone_for_longer_each_time() -> None:
    feed = machine()
    waits: list[fm.Awaited] = []
    for _ in range(3):
        feed.handle(fm.Located("db"))
        feed.handle(fm.Opened())
        waits.append(feed.handle(fm.Closed(1001)).then)
    assert waits == [fm.Sleep(1), fm.Sleep(2), fm.Sleep(4)]


def test_a_refusal_with_a_wait_is_honoured() -> None:
    feed = machine()
    full = ServiceUnavailable("Too many feeds are open", reason="connection_limit", retry_after=9.0)
    assert feed.handle(fm.Failed(full)).then == fm.Sleep(9.0)
    strange = UnknownRefusal("?", code="HTTP_502", status=502, details={}, retry_after=12.0)
    assert feed.handle(fm.Failed(strange)).then == fm.Sleep(12.0)


def test_a_refused_token_is_read_again_once_and_then_is_final() -> None:
    feed = machine()
    feed.handle(fm.Located("db"))
    assert feed.handle(fm.Failed(InvalidAuth("Unauthorized"))).then == fm.Locate()
    feed.handle(fm.Located("db"))
    ended = feed.handle(fm.Failed(InvalidAuth("Unauthorized"))).then
    assert isinstance(ended, fm.Stop)
    assert isinstance(ended.error, InvalidAuth)
    assert feed.handle(fm.Wanted()).then == ended, "an ended feed stays ended"


def test_a_token_that_is_revoked_on_an_open_feed_is_read_again() -> None:
    feed = live()
    revoked = feed.handle(fm.Closed(4401, "token revoked"))
    assert revoked.then == fm.Locate()
    assert [change.name for change in reports(revoked)] == ["disconnected"]
    feed.handle(fm.Located("db"))
    feed.handle(fm.Opened())
    assert [change.name for change in reports(feed.handle(hello_ok()))] == ["reconnected"]
    assert feed.handle(fm.Closed(4401)).then == fm.Locate(), "a later rotation is another one"
    assert isinstance(feed.handle(fm.Failed(InvalidAuth("Unauthorized"))).then, fm.Stop)


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        ("CURSOR_EXPIRED: archive-9.sqlite3 9", {"archive": "archive-9.sqlite3", "oldest_cursor": 9}),
        ("CURSOR_EXPIRED: archive-9.sqlite3", {"archive": "archive-9.sqlite3"}),
        ("", {"archive": ""}),
    ],
)
def test_an_expired_cursor_is_final_and_says_where_to_go_on(reason: str, named: dict[str, object]) -> None:
    feed = live(after=2)
    ended = feed.handle(fm.Closed(4410, reason)).then
    assert isinstance(ended, fm.Stop)
    assert isinstance(ended.error, CursorExpired)
    assert ended.error.details == {**named, "after_event_id": 2}


@pytest.mark.parametrize("close", CLOSE_CODES, ids=lambda close: str(close.code))
def test_every_close_code_of_the_registry_is_answered_as_the_registry_says(close: CloseCode) -> None:
    then = live().handle(fm.Closed(close.code, "why")).then
    if close.reconnect or close.code == 1000:
        assert isinstance(then, fm.Sleep), "1000 that we did not send is a loss like any other"
    elif close.code == 4401:
        assert then == fm.Locate()
    else:
        assert isinstance(then, fm.Stop)


def test_a_refused_hello_is_final() -> None:
    ended = live().handle(fm.Closed(1003, "Invalid topic subscriptions")).then
    assert isinstance(ended, fm.Stop)
    assert isinstance(ended.error, InvalidInput)
    assert "Invalid topic subscriptions" in ended.error.message


@pytest.mark.parametrize("error", [HostForbidden("no"), WorkspaceUnsafe("no")])
def test_a_permanent_refusal_ends_the_feed(error: HostForbidden | WorkspaceUnsafe) -> None:
    assert machine().handle(fm.Failed(error)).then == fm.Stop(error)


def test_a_cursor_beyond_the_log_is_reset_and_the_log_is_read_from_its_beginning() -> None:
    feed = machine(cursor=Cursor(50, "db"))
    feed.handle(fm.Located("db"))
    feed.handle(fm.Opened())
    reset = feed.handle(hello_ok(9, reset=True))
    assert reset.then == fm.Open()
    assert [(change.name, change.after_event_id) for change in reports(reset)] == [("reset", 50)]
    assert feed.handle(fm.Opened()).then == fm.Greet(Hello(None))
    assert feed.handle(hello_ok(9, reset=True)).then == fm.Receive(), "without a cursor there is nothing to reset"
    assert feed.handle(frame(event(1))).then == fm.Emit(event(1))


def test_a_cursor_of_another_database_is_reset_before_anything_is_read() -> None:
    feed = machine(cursor=Cursor(50, "old"))
    located = feed.handle(fm.Located("new"))
    assert located.then == fm.Open()
    assert [(change.name, change.after_event_id) for change in reports(located)] == [("reset", 50)]
    assert feed.handle(fm.Opened()).then == fm.Greet(Hello(None))
    feed.handle(hello_ok())
    feed.handle(frame(event(1)))
    assert feed.processed() == (fm.Save(Cursor(1, "new")),)


def test_a_database_that_is_replaced_between_two_connections_is_noticed() -> None:
    feed = live(after=4)
    feed.handle(fm.Closed(1006))
    feed.handle(fm.Elapsed())
    assert [change.name for change in reports(feed.handle(fm.Located("other")))] == ["reset"]


def test_the_stored_cursor_wins_over_after() -> None:
    feed = machine(cursor=Cursor(7, "db"), after=2)
    feed.handle(fm.Located("db"))
    assert feed.handle(fm.Opened()).then == fm.Greet(Hello(7))


def test_a_message_of_a_newer_kind_is_ignored() -> None:
    assert live().handle(fm.Received('{"type":"notice","text":"hi"}')) == fm.Effects(fm.Receive())


DEEP = '{"type":"event","event_id":1,"data":' + "[" * 100_000
BROKEN = b'{"type":"event","event_id":1,"name":"\xff"}'


@pytest.mark.parametrize(
    "data", ["", "[]", "7", "{}", '{"type":7}', '{"type":"event"}', b"\xff\xfe", DEEP, BROKEN], ids=len
)
def test_what_cannot_be_read_drops_the_connection_and_not_the_event(data: str | bytes) -> None:
    then = live().handle(fm.Received(data)).then
    assert isinstance(then, fm.Sleep)


def test_an_event_before_hello_ok_drops_the_connection() -> None:
    feed = machine()
    feed.handle(fm.Located("db"))
    feed.handle(fm.Opened())
    assert isinstance(feed.handle(frame(event(1))).then, fm.Sleep)
