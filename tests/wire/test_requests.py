"""Request bodies: what passes, what does not, and that unknown members are no mistake."""

import re
from typing import Any

import msgspec
import pytest

from parley.core import limits
from parley.wire import requests

TOPIC = {"channel_id": "ch_1", "title": "t"}
MESSAGE = {"topic_id": "topic_1", "sender": "ann", "content_raw": "hello"}
ATTACHMENT = {"kind": "file", "value_json": {}}


def decode(kind: Any, body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (requests.CreateChannel, {"name": "x" * limits.CHANNEL_NAME_CHARS_MAX, "description": None}),
        (requests.CreateChannel, {"name": " a ", "description": "d", "colour": "unknown members are ignored"}),
        (requests.CreateTopic, {**TOPIC, "title": "é" * limits.TOPIC_TITLE_CHARS_MAX}),
        (requests.RenameTopic, {"title": "t"}),
        (requests.CreateMessage, {**MESSAGE, "content_raw": ""}),
        (requests.CreateMessage, {**MESSAGE, "reply_to": None, "client_message_id": "!~" * 100}),
        (requests.AddAttachment, {**ATTACHMENT, "key": "", "dedupe_key": "k", "source_message_id": "msg_1"}),
        (requests.Ping, {}),
    ],
)
def test_a_good_body_passes(kind: Any, body: Any) -> None:
    assert isinstance(decode(kind, body), kind)


@pytest.mark.parametrize(
    ("kind", "body", "place"),
    [
        (requests.CreateChannel, {}, "name"),
        (requests.CreateChannel, {"name": ""}, "$.name"),
        (requests.CreateChannel, {"name": "   "}, "$.name"),
        (requests.CreateChannel, {"name": "a\nb"}, "$.name"),
        (requests.CreateChannel, {"name": "a\x7f"}, "$.name"),
        (requests.CreateChannel, {"name": "a\n"}, "$.name"),
        (requests.CreateChannel, {"name": 5}, "$.name"),
        (requests.CreateChannel, {"name": "x" * (limits.CHANNEL_NAME_CHARS_MAX + 1)}, "$.name"),
        (requests.CreateChannel, {"name": "a", "description": 5}, "$.description"),
        (requests.CreateChannel, {"name": "a", "description": "x" * 2001}, "$.description"),
        (requests.CreateTopic, {**TOPIC, "channel_id": "a b"}, "$.channel_id"),
        (requests.CreateTopic, {**TOPIC, "channel_id": ""}, "$.channel_id"),
        (requests.CreateTopic, {**TOPIC, "channel_id": "ch_1\n"}, "$.channel_id"),
        (requests.CreateTopic, {**TOPIC, "title": "x" * 201}, "$.title"),
        (requests.RenameTopic, {"title": None}, "$.title"),
        (requests.CreateMessage, {**MESSAGE, "sender": " "}, "$.sender"),
        (requests.CreateMessage, {**MESSAGE, "sender": "x" * 201}, "$.sender"),
        (requests.CreateMessage, {**MESSAGE, "content_raw": None}, "$.content_raw"),
        (requests.CreateMessage, {**MESSAGE, "reply_to": "../x"}, "$.reply_to"),
        (requests.CreateMessage, {**MESSAGE, "client_message_id": "a b"}, "$.client_message_id"),
        (requests.CreateMessage, {**MESSAGE, "client_message_id": ""}, "$.client_message_id"),
        (requests.CreateMessage, {**MESSAGE, "client_message_id": "a\n"}, "$.client_message_id"),
        (requests.AddAttachment, {**ATTACHMENT, "key": "a\n"}, "$.key"),
        (requests.CreateMessage, {**MESSAGE, "client_message_id": "x" * 201}, "$.client_message_id"),
        (requests.AddAttachment, {**ATTACHMENT, "value_json": []}, "$.value_json"),
        (requests.AddAttachment, {**ATTACHMENT, "value_json": "{}"}, "$.value_json"),
        (requests.AddAttachment, {**ATTACHMENT, "kind": ""}, "$.kind"),
        (requests.AddAttachment, {**ATTACHMENT, "dedupe_key": ""}, "$.dedupe_key"),
        (requests.AddAttachment, {**ATTACHMENT, "key": "\x00"}, "$.key"),
        (requests.AddAttachment, {**ATTACHMENT, "source_message_id": ""}, "$.source_message_id"),
    ],
)
def test_a_bad_field_is_named(kind: Any, body: Any, place: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refusal:
        decode(kind, body)
    assert place in str(refusal.value)


def test_every_pattern_has_words_for_a_person() -> None:
    kinds = [kind for kind in vars(requests).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    _, components = msgspec.json.schema_components(kinds)
    found = set(re.findall(r'"pattern":("(?:[^"\\]|\\.)*")', msgspec.json.encode(components).decode()))
    assert {msgspec.json.decode(pattern) for pattern in found} == set(requests.PATTERN_WORDS)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"op": "edit", "content_raw": "x"}, requests.EditMessage),
        ({"op": "edit", "content_raw": "x", "expected_version": None}, requests.EditMessage),
        ({"op": "delete", "actor": "ann", "expected_version": 1}, requests.DeleteMessage),
        ({"op": "move_topic", "to_topic_id": "t", "mode": "one"}, requests.MoveMessage),
        ({"op": "move_topic", "to_topic_id": "t", "mode": "later"}, requests.MoveMessage),
        ({"mode": "all", "to_topic_id": "t", "op": "move_topic"}, requests.MoveMessage),
    ],
)
def test_a_change_of_a_message_is_told_apart_by_its_op(body: Any, kind: Any) -> None:
    assert type(decode(requests.PatchMessage, body)) is kind


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"op": "purge"},
        {"op": None},
        {"op": "edit"},
        {"op": "edit", "content_raw": ""},
        {"op": "edit", "content_raw": "x", "expected_version": "1"},
        {"op": "edit", "content_raw": "x", "expected_version": 0},
        {"op": "edit", "content_raw": "x", "expected_version": 2**53},
        {"op": "edit", "content_raw": "x", "expected_version": 1.5},
        {"op": "delete"},
        {"op": "delete", "actor": ""},
        {"op": "move_topic", "to_topic_id": "t"},
        {"op": "move_topic", "to_topic_id": "t", "mode": "some"},
        {"op": "move_topic", "to_topic_id": "", "mode": "one"},
    ],
)
def test_a_bad_change_of_a_message_is_refused(body: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(requests.PatchMessage, body)
