"""Events on the wire: the envelope, typed payloads, and what a reader does with names it does not know."""

from typing import Any

import msgspec
import pytest

from parley.wire import events
from parley.wire.entities import Channel
from parley.wire.events import EventEnvelope, Hello, HelloOk, Scope, Subscriptions, decode_server_frame

ENVELOPE: dict[str, Any] = {
    "type": "event",
    "event_id": 7,
    "ts": "2026-01-01T00:00:00.000Z",
    "name": "channel.created",
    "scope": {"channel_id": "ch_1", "topic_id": None, "topic_id2": None},
    "entity": {"type": "channel", "id": "ch_1"},
    "data": {"channel": {"id": "ch_1", "name": "n", "description": None, "created_at": "t"}},
}


def frame(**changes: Any) -> bytes:
    return msgspec.json.encode({**ENVELOPE, **changes})


def test_an_event_has_a_typed_payload() -> None:
    event = decode_server_frame(frame())
    assert isinstance(event, EventEnvelope)
    assert event.scope == Scope("ch_1")
    assert event.payload == events.ChannelCreated(Channel("ch_1", "n", None, "t"))


def test_an_event_of_a_newer_hub_stays_a_dictionary() -> None:
    event = decode_server_frame(frame(name="message.starred", data={"stars": 5}, novelty=True))
    assert isinstance(event, EventEnvelope)
    assert event.payload == {"stars": 5}


def test_members_that_a_payload_does_not_know_are_ignored() -> None:
    data = {"message_id": "m", "deleted_by": "a", "version": 2, "reason": "new"}
    assert events.decode_payload("message.deleted", data) == events.MessageDeleted("m", "a", 2)


def test_hello_ok_says_reset_only_when_it_is_so() -> None:
    assert msgspec.json.decode(msgspec.json.encode(HelloOk(5, 5, "i"))) == {
        "type": "hello_ok",
        "replay_until": 5,
        "latest_event_id": 5,
        "instance_id": "i",
    }
    assert decode_server_frame(msgspec.json.encode(HelloOk(5, 5, "i", reset=True))) == HelloOk(5, 5, "i", reset=True)


@pytest.mark.parametrize(
    ("body", "subscriptions"),
    [
        ({"type": "hello"}, msgspec.UNSET),
        ({"type": "hello", "subscriptions": None}, None),
        ({"type": "hello", "subscriptions": {}}, Subscriptions()),
        ({"type": "hello", "subscriptions": {"channels": ["a"]}}, Subscriptions(["a"])),
    ],
)
def test_omitted_and_empty_subscriptions_are_told_apart(body: Any, subscriptions: Any) -> None:
    assert msgspec.json.decode(msgspec.json.encode(body), type=Hello).subscriptions == subscriptions
