"""A body is read to its end or refused, and a refusal carries the headers that HTTP asks for."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import pytest

from parley.core.errors import (
    InvalidAuth,
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    ServiceUnavailable,
    UnsupportedMediaType,
)
from parley.serve.bodies import decode_body, read_body, refusal_headers, require_json

Message = MutableMapping[str, Any]
MOST = 2048


def arriving(*messages: Message) -> Callable[[], Awaitable[Message]]:
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0)

    return receive


def part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_parts_is_one() -> None:
    receive = arriving(part(b"[1,", more=True), part(b"", more=True), part(b"2]", more=False))
    assert await read_body(receive, b"5", MOST) == b"[1,2]"
    assert await read_body(arriving({"type": "http.request"}), None, MOST) == b""
    assert await read_body(arriving(part(b"x" * MOST, more=False)), None, MOST) == b"x" * MOST


@pytest.mark.parametrize("declared", [None, b"", b"1", b"many", b"4096"])
async def test_a_body_that_is_too_large_is_refused_whatever_was_declared(declared: bytes | None) -> None:
    for messages in ([part(b"x" * 4096, more=False)], [part(b"x" * 1500, more=True)] * 3):
        with pytest.raises(PayloadTooLarge, match="max 2KB"):
            await read_body(arriving(*messages), declared, MOST)


async def test_what_a_sender_left_in_the_middle_is_not_done_though_it_reads_well() -> None:
    with pytest.raises(InvalidInput, match="ended early"):
        await read_body(arriving(part(b"{}", more=True), {"type": "http.disconnect"}), None, MOST)


def test_a_body_must_be_said_to_be_json_and_be_it() -> None:
    require_json(b"Application/JSON; charset=utf-8")
    with pytest.raises(UnsupportedMediaType):
        require_json(b"")
    decode = msgspec.json.Decoder(dict[str, int]).decode
    assert decode_body(decode, b'{"a":1}') == {"a": 1}
    for broken in (b"", b"{", b'{"\xff":1}', b"[" * 100_000):
        with pytest.raises(InvalidInput, match=r"not valid JSON in UTF-8|must be an object"):
            decode_body(decode, broken)
    with pytest.raises(InvalidInput, match="must be a whole number, not a string"):
        decode_body(decode, b'{"a":"b"}')


def test_a_refusal_says_when_to_come_again_what_is_allowed_and_how_to_prove_oneself() -> None:
    assert refusal_headers(ServiceUnavailable("full", reason="disk_full"))[0][0] == b"retry-after"
    assert refusal_headers(MethodNotAllowed("PUT", ["GET", "POST"])) == [(b"allow", b"GET, POST")]
    assert refusal_headers(InvalidAuth("no")) == [(b"www-authenticate", b"Bearer")]
    assert refusal_headers(NotFound("none")) == []
