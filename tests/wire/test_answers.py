"""The one shape of an error, and the fields that appear only when they say something."""

import msgspec
import pytest

from parley.core.errors import InvalidInput, NotFound, ShuttingDown, VersionConflict
from parley.wire.answers import ChannelResult, ErrorBody, MessageResult, MoveResult, Pong, error_body
from parley.wire.entities import Channel, Message


def plain(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_an_error_has_a_sentence_a_code_and_details() -> None:
    assert plain(error_body(NotFound("Topic not found: t", topic_id="t"))) == {
        "error": "Topic not found: t",
        "code": "NOT_FOUND",
        "details": {"topic_id": "t"},
    }


def test_without_details_there_is_no_such_member() -> None:
    assert plain(error_body(InvalidInput("no"))) == {"error": "no", "code": "INVALID_INPUT"}


def test_a_version_conflict_has_the_decided_shape() -> None:
    assert plain(error_body(VersionConflict("msg_1", expected=1, current=3))) == {
        "error": "Version conflict for message msg_1: expected 1, current 3",
        "code": "VERSION_CONFLICT",
        "details": {"expected": 1, "current": 3, "current_version": 3, "message_id": "msg_1"},
        "current_version": 3,
    }


def test_shutting_down_says_it_twice_for_existing_clients() -> None:
    assert plain(error_body(ShuttingDown())) == {
        "error": "The server is shutting down",
        "code": "SHUTTING_DOWN",
        "message": "The server is shutting down",
    }


def test_an_error_body_reads_back() -> None:
    body = error_body(VersionConflict("msg_1", expected=1, current=3))
    assert msgspec.json.decode(msgspec.json.encode(body), type=ErrorBody) == body


def test_duplicate_appears_only_when_it_is_true() -> None:
    channel = Channel("ch_1", "n", None, "t")
    assert plain(ChannelResult(channel, 1)) == {"channel": plain(channel), "event_id": 1}
    assert plain(ChannelResult(channel, 1, duplicate=True)) == {
        "channel": plain(channel),
        "event_id": 1,
        "duplicate": True,
    }
    assert plain(MoveResult(0, [])) == {"affected_count": 0, "event_ids": []}


def test_every_key_of_a_message_is_always_there() -> None:
    message = Message("m", "t", "c", "s", "x", 1, "now")
    assert plain(MessageResult(message, None)) == {
        "message": {
            "id": "m",
            "topic_id": "t",
            "channel_id": "c",
            "sender": "s",
            "content_raw": "x",
            "version": 1,
            "created_at": "now",
            "edited_at": None,
            "deleted_at": None,
            "deleted_by": None,
            "reply_to": None,
        },
        "event_id": None,
    }


@pytest.mark.parametrize(("pong", "expected"), [(Pong(True, "i"), {}), (Pong(True, "i", None), {"echo": None})])
def test_an_echo_comes_back_only_if_it_was_sent(pong: Pong, expected: dict[str, object]) -> None:
    assert plain(pong) == {"pong": True, "instance_id": "i", **expected}
