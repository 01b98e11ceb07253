"""A mistake in a body is told by its member and in a sentence, never as a pattern."""

import re
from typing import Any

import msgspec
import pytest

from parley.daemon.hooks.config import HookSettings
from parley.plugin.contract import Enrichment
from parley.wire.daemon_requests import Join, Register, SendBody, TopicName
from parley.wire.mesh_http import CreateMesh, JoinMesh, SetLimits
from parley.wire.mesh_methods import METHODS, OfGroup, OfTopic
from parley.wire.requests import PATTERN_WORDS, CreateMessage
from parley.wire.validation_errors import MESH_PATTERN_WORDS, in_words, invalid


def told(kind: Any, /, **body: object) -> tuple[str, object]:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(msgspec.json.encode(body), type=kind)
    refusal = invalid(caught.value, at="here")
    assert refusal.details["at"] == "here"
    return refusal.message, refusal.details.get("field")


@pytest.mark.parametrize(
    ("kind", "body", "field", "words"),
    [
        (CreateMesh, {"slug": "My Mesh", "name": "x"}, "slug", "must be lowercase letters, digits and '-'"),
        (CreateMesh, {"slug": "", "name": "x"}, "slug", "must not be empty"),
        (CreateMesh, {"slug": "a" * 65, "name": "x"}, "slug", "must have at most 64 characters"),
        (CreateMesh, {"slug": "a"}, "name", "must be given"),
        (CreateMesh, {"slug": "a", "name": "@all"}, "name", "cannot be taken for a key"),
        (Join, {"invite": "x", "name": " bob"}, "name", "neither begins nor ends with a blank"),
        (OfTopic, {"topic": "a\nb"}, "topic", "must not be empty or contain control characters"),
        (TopicName, {"topic": ""}, "topic", "must not be empty"),
        (SendBody, {"to": "a\0", "message": "x"}, "to", "must not be empty or contain control characters"),
        (OfGroup, {"group": "@x"}, "group", "must not be empty or contain '@', '*'"),
        (Register, {"token": "x", "session_id": "s"}, "token", "must be 64 hexadecimal digits"),
        (Register, {"token": "ab" * 32, "session_id": ""}, "session_id", "must not be empty"),
        (Register, {"token": "ab" * 32, "session_id": "s", "groups": ["g"] * 51}, "groups", "at most 50 items"),
        (SendBody, {"to": "bob", "message": "x", "client_message_id": "ä"}, "client_message_id", "printable ASCII"),
        (SetLimits, {"slug": "a", "members_max": 0}, "members_max", "must be at least 1"),
        (SetLimits, {"slug": "a", "members_max": 1.5}, "members_max", "must be a whole number or null, not one with"),
        (SetLimits, {"slug": 3}, "slug", "must be a string, not a whole number"),
        (SendBody, {"to": "bob", "message": None}, "message", "must be a string, not null"),
        (SendBody, {"to": "bob", "message": "x", "priority": "soon"}, "priority", "cannot be 'soon'"),
        (Register, {"token": "ab" * 32, "session_id": "s", "groups": "g"}, "groups", "must be a list"),
        (Register, {"token": "ab" * 32, "session_id": "s", "groups": ["g", True]}, "groups[1]", "not true or false"),
        (HookSettings, {"colour": "red"}, "colour", "is not known"),
        (Enrichment, {"kind": "k", "data": {}, "span": {"start": 1}}, "span.end", "must be given"),
    ],
)
def test_each_name_says_what_is_allowed(kind: Any, body: dict[str, object], field: str, words: str) -> None:
    message, where = told(kind, **body)
    assert where == field
    assert message.startswith(f"{field}: ")
    assert words in message


def test_of_a_body_that_is_no_object_no_member_is_named() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b"[]", type=CreateMesh)
    refusal = invalid(caught.value)
    assert (refusal.message, refusal.details) == ("What was sent must be an object, not a list", {})


@pytest.mark.parametrize("kind", [CreateMesh, SetLimits, Register, Join, SendBody, CreateMessage, HookSettings])
@pytest.mark.parametrize("value", [None, True, -1, 1.5, "\0", [], [[]], {}, {"a": []}])
def test_no_word_of_the_decoder_comes_through(kind: type[msgspec.Struct], value: object) -> None:
    told = list[str]()
    for body in (value, *({name: value} for name in kind.__struct_encode_fields__)):
        try:
            msgspec.convert(body, kind)
        except msgspec.ValidationError as error:
            told.append(in_words(error))
    assert told
    assert [each for each in told if re.search("[`$]|Expected|Object|enum", each)] == []


def test_no_pattern_of_a_mesh_is_without_words() -> None:
    kinds = [CreateMesh, JoinMesh, Register, Join, SendBody, CreateMessage, *(each.params for each in METHODS.values())]
    _, schemas = msgspec.json.schema_components(kinds)
    patterns: set[str] = set()

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                patterns.add(node["pattern"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(schemas)
    assert patterns
    assert patterns - {*PATTERN_WORDS, *MESH_PATTERN_WORDS} == set()
