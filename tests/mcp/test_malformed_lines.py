"""Lines that are no messages: each is answered once, under its id where it has one, and the next line is read."""

import asyncio
import json
import os

import pytest

from parley.mcp.malformed_lines import Understood
from parley.mcp.wire import CHUNK_BYTES, Incoming, Outgoing

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
NO_JSON, NO_REQUEST = -32700, -32600


async def answers_to(*lines: str) -> list[tuple[object, int]]:
    """The id and code of each refusal when these lines come, and then a message that is understood."""
    (theirs, ours), (heard, told) = os.pipe(), os.pipe()
    try:
        os.write(ours, "".join(f"{line}\n" for line in lines).encode() + PING.encode())
        os.close(ours)
        understood = Understood(Incoming(theirs), Outgoing(told))
        assert [line async for line in understood] == [PING]
        os.close(told)
        answers = [json.loads(line) for line in os.read(heard, CHUNK_BYTES).splitlines()]
    finally:
        os.close(theirs)
        os.close(heard)
    assert all(each["jsonrpc"] == "2.0" and each["error"]["message"] for each in answers)
    return [(each["id"], each["error"]["code"]) for each in answers]


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        (r'{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"\ud800"}}', 900, NO_JSON),
        (r'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}', "\ud800", NO_JSON),
        ('{"jsonrpc":"2.0","id":"a","method":5}', "a", NO_REQUEST),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":"text"}', 7, NO_REQUEST),
        ('{"id":7,"method":"ping"}', 7, NO_REQUEST),
        ('{"jsonrpc":"2.0","id":true,"method":5}', None, NO_REQUEST),
        ('{"jsonrpc":"2.0","method":5}', None, NO_REQUEST),
        ('{"jsonrpc":"2.0","id":{},"method":"ping"}', None, NO_REQUEST),
        ('{"jsonrpc":"2.0","id":1e999,"method":"ping"}', None, NO_REQUEST),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None, NO_REQUEST),
        ("{not json}", None, NO_JSON),
        ("[" * 20_000, None, NO_JSON),
        ("[]", None, NO_REQUEST),
        ("5", None, NO_REQUEST),
    ],
)
async def test_a_line_that_is_no_message_is_answered(line: str, id_: object, code: int) -> None:
    assert await answers_to(line) == [(id_, code)]


@pytest.mark.parametrize("line", ["", "  \r", '{"jsonrpc":"2.0","id":1,"result":5}', '{"id":1,"error":"odd"}'])
async def test_a_line_that_asks_nothing_is_not(line: str) -> None:
    assert await answers_to(line) == []


async def test_a_refusal_waits_until_the_answer_before_it_is_written() -> None:
    (theirs, ours), (heard, told) = os.pipe(), os.pipe()
    outgoing, line = Outgoing(told), "x" * 20 * CHUNK_BYTES + "\n"
    await outgoing.write(line)
    flushing = asyncio.create_task(outgoing.flush())
    await asyncio.sleep(0)
    os.write(ours, b"[]\n" + PING.encode())
    coming = asyncio.create_task(anext(Understood(Incoming(theirs), outgoing)))

    def read() -> bytes:
        text = b""
        while text.count(b"\n") < 2:
            text += os.read(heard, CHUNK_BYTES)
        return text

    first, second = (await asyncio.to_thread(read)).decode().splitlines()
    assert first == line.rstrip()
    assert json.loads(second)["error"]["code"] == NO_REQUEST
    assert await coming == PING
    await flushing
    for each in (theirs, ours, heard, told):
        os.close(each)
