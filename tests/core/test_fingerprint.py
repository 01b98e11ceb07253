"""The request fingerprint, with the two worked examples of the mesh contract, section 4.3."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.errors import InvalidInput
from parley.core.fingerprint import (
    fingerprint_prefix,
    message_fingerprint,
    request_fingerprint,
    write_fingerprint,
)

EXAMPLE_1: dict[str, Any] = {
    "kind": "topic",
    "ref": "alerts",
    "priority": "next",
    "meta": {"z": "é", "a": [1, 2]},
    "body": b"build done",
}
EXAMPLE_2: dict[str, Any] = {
    "kind": "dm",
    "ref": "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29",
    "priority": "now",
    "body": b"hello",
}
PLAIN = st.text(st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=["Cs"]), max_size=8)


def test_worked_example_1_of_section_4_3() -> None:
    fingerprint = request_fingerprint(**EXAMPLE_1)
    assert fingerprint.hex() == "caedc64c41f75ecc2bb660efbc8d7a15eb9f95fb48e74711e39e5ccdaf292703"
    assert fingerprint_prefix(fingerprint) == "caedc64c41f75ecc"


def test_worked_example_2_of_section_4_3() -> None:
    assert request_fingerprint(**EXAMPLE_2).hex() == "fe6737806c433b28e1e154f6022970aae20bb6cf1ec39babe9b520d120b881b8"


def test_the_preimage_is_the_written_one() -> None:
    preimage = bytes.fromhex(
        "3100746f70696300616c6572747300006e657874007b2261223a5b312c325d2c227a223a22c3a9227d00"
    ) + hashlib.sha256(b"build done").hexdigest().encode("ascii")
    assert len(preimage) == 106
    assert request_fingerprint(**EXAMPLE_1) == hashlib.sha256(preimage).digest()


def test_no_metadata_and_the_empty_object_are_the_same() -> None:
    assert request_fingerprint(**EXAMPLE_2, meta={}) == request_fingerprint(**EXAMPLE_2, meta=None)


@pytest.mark.parametrize("part", ["kind", "ref", "reply_to", "priority", "version"])
@pytest.mark.parametrize("character", ["\0", "\n", "\x1f", "\x7f"])
def test_a_control_character_in_a_part_is_refused(part: str, character: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        request_fingerprint(**{**EXAMPLE_2, part: f"a{character}b"})
    assert refusal.value.details == {"field": part}


@given(
    st.tuples(PLAIN, PLAIN, PLAIN, PLAIN, st.binary(max_size=8)),
    st.tuples(PLAIN, PLAIN, PLAIN, PLAIN, st.binary(max_size=8)),
)
def test_requests_are_the_same_if_and_only_if_their_parts_are(left: Any, right: Any) -> None:
    def fingerprint(parts: Any) -> bytes:
        kind, ref, reply_to, value, body = parts
        return request_fingerprint(kind=kind, ref=ref, reply_to=reply_to, meta={"m": value}, body=body)

    assert (fingerprint(left) == fingerprint(right)) == (left == right)


def test_a_write_to_a_hub_is_its_operation_its_target_the_fields_that_were_given_and_its_content() -> None:
    fields = {"sender": "ann", "expected_version": None}
    expected = request_fingerprint(kind="message.delete", ref="msg_1", meta={"sender": "ann"}, body=b"x")
    assert write_fingerprint("message.delete", "msg_1", fields, "x") == expected


def test_posting_a_message_is_the_topic_the_sender_the_content_and_what_it_answers() -> None:
    expected = request_fingerprint(
        kind="message.create", ref="topic_1", reply_to="msg_1", meta={"sender": "ann"}, body=b"hello"
    )
    assert message_fingerprint("topic_1", "ann", "hello", "msg_1") == expected
    assert message_fingerprint("topic_1", "ann", "hello", None) == message_fingerprint("topic_1", "ann", "hello", "")
