"""What the daemon's clients make of odd texts, odd answers and odd arguments: an answer, or an error with a code."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parley.client.daemon import AsyncDaemonClient, DaemonClient, StreamedEvent
from parley.core.daemon_errors import DaemonNotRunning
from parley.core.errors import ClientClosed, ConnectionFailed, InternalError, InvalidInput, ParleyError
from parley.wire.daemon_home import DaemonHome
from tests.client.scripted_daemon import Scripted, ScriptedDaemon, answer, scripting, stream

SEPARATORS = "one\u2028two\u2029three\x85four\x0bfive"
SENT = answer(b'{"client_message_id": "m-1", "id": "out_1", "mesh": "team", "status": "queued"}', "202 Accepted")
NO_MESSAGES = answer(b'{"items": [], "cursor": null, "unseen": 0, "marked_seen": 0, "undecryptable": 0}')
Events = Callable[[DaemonHome], list[StreamedEvent]]


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    with scripting(tmp_path) as make:
        yield make


def blocking_events(home: DaemonHome) -> list[StreamedEvent]:
    with DaemonClient(home) as client:
        return list(client.events())


def awaited_events(home: DaemonHome) -> list[StreamedEvent]:
    async def events() -> list[StreamedEvent]:
        async with AsyncDaemonClient(home) as client:
            return [event async for event in client.events()]

    return asyncio.run(events())


both = pytest.mark.parametrize("events", [blocking_events, awaited_events])


def sent_body(daemon: ScriptedDaemon) -> dict[str, Any]:
    return json.loads(daemon.requests[-1].partition(b"\r\n\r\n")[2])


@both
def test_a_message_may_hold_what_other_programs_take_for_the_end_of_a_line(scripted: Scripted, events: Events) -> None:
    text = json.dumps({"body": SEPARATORS}, ensure_ascii=False)
    daemon = scripted(stream(f"id: 1\nevent: message\ndata: {text}\n\nid: 2\r\ndata: {{}}\r\n\r\nid: 3\n"))
    assert events(daemon.home) == [
        StreamedEvent(1, "message", {"body": SEPARATORS}),
        StreamedEvent(2, "message", {}),
    ]


@both
@pytest.mark.parametrize(
    "said",
    [
        "id: x\ndata: {}\n\n",
        f"id: {'9' * 5_000}\ndata: {{}}\n\n",
        "id: -1\ndata: {}\n\n",
        "data: {bad\n\n",
        "data: [1]\n\n",
        f"data: {'[' * 100_000}\n\n",
    ],
)
def test_a_stream_that_makes_no_sense_is_an_error_of_ours(scripted: Scripted, events: Events, said: str) -> None:
    with pytest.raises(InternalError, match="cannot be read"):
        events(scripted(stream(said)).home)


@pytest.mark.parametrize("said", [b"[1", b'{"id": "\xff"}', b'{"more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_an_answer_that_makes_no_sense_is_an_error_of_ours(scripted: Scripted, said: bytes) -> None:
    daemon = scripted(answer(said, "202 Accepted"))
    with DaemonClient(daemon.home) as client, pytest.raises(InternalError, match="cannot be read"):
        client.send("bob", "hello")


def test_a_message_has_an_id_before_it_is_sent(scripted: Scripted) -> None:
    daemon = scripted(SENT, SENT)
    with DaemonClient(daemon.home) as client:
        client.send("bob", "hello")
        first = sent_body(daemon)["client_message_id"]
        client.send("bob", "hello")
    assert len(first) > 10
    assert sent_body(daemon)["client_message_id"] != first


def test_metadata_goes_on_as_it_is_written(scripted: Scripted) -> None:
    daemon = scripted(SENT, SENT)
    with DaemonClient(daemon.home) as client:
        client.send("bob", "hello", meta=msgspec.Raw(b'{"a": 1, "a": 2}'))
        assert b'"meta":{"a": 1, "a": 2}' in daemon.requests[-1]
        client.send("bob", "hello", meta={"a": [1, None, "é"]})
        assert sent_body(daemon)["meta"] == {"a": [1, None, "é"]}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "meta",
    [
        nested(100),
        nested(100_000),
        {"a": object()},
        {"a": math.nan},
        {"a": [math.inf]},
        {"a": "\udc00"},
        msgspec.Raw(b"[1]"),
        msgspec.Raw(b'{"a": NaN}'),
        msgspec.Raw(b'{"a":' * 3_000 + b"1" + b"}" * 3_000),
        msgspec.Raw(b'{"a": 1} {}'),
    ],
    ids=["deep", "too deep", "object", "nan", "inf", "surrogate", "list", "raw nan", "raw deep", "two"],
)
def test_metadata_that_is_none_is_refused_before_it_is_sent(tmp_path: Path, meta: Any) -> None:
    with DaemonClient(DaemonHome(tmp_path)) as client, pytest.raises(InvalidInput):
        client.send("bob", "hello", meta=meta)


def test_other_arguments_that_are_too_deep_are_refused_too(tmp_path: Path) -> None:
    with DaemonClient(DaemonHome(tmp_path)) as client, pytest.raises(InvalidInput):
        client.call("peers", nested(100_000))


def test_a_daemon_that_is_late_is_not_one_that_does_not_run(scripted: Scripted) -> None:
    daemon = scripted(None)
    with DaemonClient(daemon.home, timeout=0.2) as client, pytest.raises(ConnectionFailed) as raised:
        client.health()
    assert raised.value.transient
    assert "parley daemon status" in raised.value.hint
    assert not isinstance(raised.value, DaemonNotRunning)


def test_a_daemon_that_ends_before_it_answers_does_not_run(scripted: Scripted) -> None:
    daemon = scripted(b"")
    with DaemonClient(daemon.home) as client, pytest.raises(DaemonNotRunning):
        client.health()


def test_a_long_wait_is_waited_for(scripted: Scripted) -> None:
    """The daemon answers after more than the client's patience, but within the wait that was asked for."""
    daemon = scripted(NO_MESSAGES, NO_MESSAGES, late_seconds=0.5)
    with DaemonClient(daemon.home, timeout=0.2) as client:
        assert client.inbox(wait_seconds=25).items == []
        with pytest.raises(ConnectionFailed):
            client.inbox()


@pytest.mark.parametrize("session", ["é", "a\nb", "a\x00", " a", ""])
def test_a_session_that_no_header_can_carry_is_refused(tmp_path: Path, session: str) -> None:
    with DaemonClient(DaemonHome(tmp_path), session=session) as client:
        with pytest.raises(InvalidInput, match="session"):
            client.health()
        with pytest.raises(InvalidInput, match="session"):
            next(client.events())


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
async def test_a_wait_without_an_end_is_refused(tmp_path: Path, seconds: float) -> None:
    with DaemonClient(DaemonHome(tmp_path)) as client, pytest.raises(InvalidInput, match="seconds"):
        client.wait_for_messages(seconds)
    async with AsyncDaemonClient(DaemonHome(tmp_path)) as other:
        with pytest.raises(InvalidInput, match="seconds"):
            await other.wait_for_messages(seconds)


async def test_a_client_that_was_closed_says_so(scripted: Scripted) -> None:
    daemon = scripted(SENT)
    client, other = DaemonClient(daemon.home), AsyncDaemonClient(daemon.home)
    client.send("bob", "hello")
    client.close()
    await other.aclose()
    for use in (client.health, lambda: next(client.events()), lambda: next(client.follow())):
        with pytest.raises(ClientClosed):
            use()
    with pytest.raises(ClientClosed):
        await other.health()
    with pytest.raises(ClientClosed):
        await anext(other.events())


async def test_a_filter_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"unread": True}
    with DaemonClient(DaemonHome(tmp_path)) as client:
        for use in (client.inbox, lambda **given: client.search_inbox("x", **given)):
            with pytest.raises(TypeError, match="unread"):
                use(**wrong)
        with pytest.raises(TypeError, match="unread"):
            client.wait_for_messages(1, **wrong)


@pytest.mark.parametrize(
    ("row_id", "path"),
    [
        (".", b"/v1/outbox/%2E"),
        ("..", b"/v1/outbox/%2E%2E"),
        ("a/..", b"/v1/outbox/a%2F.."),
        ("a.b", b"/v1/outbox/a.b"),
    ],
)
def test_an_id_stays_one_segment_of_the_path(scripted: Scripted, row_id: str, path: bytes) -> None:
    daemon = scripted(answer(b'{"error": "no such row", "code": "NOT_FOUND"}', "404 Not Found"))
    with DaemonClient(daemon.home) as client, pytest.raises(ParleyError):
        client.outbox_row(row_id)
    assert daemon.requests[-1].split(b" ")[1] == path


def test_an_address_that_is_too_long_is_refused(scripted: Scripted) -> None:
    with DaemonClient(scripted().home) as client, pytest.raises(InvalidInput):
        client.search_inbox("x" * 100_000)


def test_a_session_that_could_not_be_ended_can_be_ended_again(scripted: Scripted) -> None:
    daemon = scripted(b"", answer(b'{"ok": true, "ended": true}'))
    with DaemonClient(daemon.home, session="a" * 64) as client:
        with pytest.raises(DaemonNotRunning):
            client.end_session()
        assert client.end_session()
        assert not client.end_session()
    assert len(daemon.requests) == 2
