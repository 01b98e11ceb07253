"""Replies and frames are found whole however the network cuts them, and a wrong one stops a measurement."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from bench.load.feed import Subscriber, Tally
from bench.load.http import HttpPeer, check_success, connect, json_body, request, status
from bench.load.peer import UnexpectedReply, closed_loop
from bench.rivals.nats_jetstream import NatsPeer
from bench.rivals.redis_streams import RedisPeer

CREATED = b'HTTP/1.1 201 Created\r\nContent-Type: application/json\r\ncontent-length: 7\r\n\r\n{"a":1}'
NO_CONTENT = b"HTTP/1.1 204 No Content\r\nX-Request-ID: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("peer", "replies"),
    [
        (HttpPeer(), [CREATED, NO_CONTENT, CREATED]),
        (RedisPeer(), [b"$15\r\n1526919030474-0\r\n", b"-ERR no\r\n", b"$3\r\n\r\n1\r\n"]),
        (NatsPeer(), [b'MSG _INBOX.x 1 11\r\n{"seq":"12"}'[:-1] + b"\r\n", b"-ERR\r\n"]),
    ],
    ids=["http", "redis", "nats"],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_replies_are_found_whole_however_they_are_cut(peer: HttpPeer, replies: list[bytes], size: int) -> None:
    found: list[bytes] = []
    peer.on_reply = found.append
    stream = b"".join(replies)
    for start in range(0, len(stream), size):
        peer.data_received(stream[start : start + size])
    assert found == replies


def test_a_reply_gives_its_status_and_its_json() -> None:
    assert status(CREATED) == 201
    assert json_body(CREATED) == {"a": 1}
    check_success(CREATED)
    with pytest.raises(UnexpectedReply):
        check_success(b"HTTP/1.1 429 Too Many Requests\r\n\r\n")


def test_a_request_carries_its_key_as_a_header() -> None:
    head, body = request("POST", "/x", "secret", {"a": 1}, idempotency_key="k").split(b"\r\n\r\n")
    assert body == b'{"a":1}'
    assert b"\r\nidempotency-key: k" in head
    assert b"\r\nContent-Length: 7" in head


@asynccontextmanager
async def server(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A server that handles each connection with ``answer``; leaving waits for all of them."""
    ended: list[asyncio.Future[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = asyncio.get_running_loop().create_future()
        ended.append(end)
        await answer(reader, writer)
        writer.close()
        await writer.wait_closed()
        end.set_result(None)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]
        await asyncio.gather(*ended)


async def test_a_closed_loop_sends_every_request_once_and_times_each() -> None:
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            seen.append(line)
            writer.write(CREATED)

    async with server(answer) as port:
        peers = [await connect("127.0.0.1", port) for _ in range(3)]
        lines = [f"{number}\n".encode() for number in range(20)]
        run = await closed_loop(peers, iter(lines), check_success)
        for peer in peers:
            peer.close()
    assert sorted(seen) == sorted(lines)
    assert len(run.latencies) == 20


async def test_a_refusal_or_a_lost_server_ends_a_measurement() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
        await reader.readline()

    async def vanish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()

    for answer, error in ((refuse, UnexpectedReply), (vanish, ConnectionError)):
        async with server(answer) as port:
            peer = await connect("127.0.0.1", port)
            with pytest.raises(error):
                await closed_loop([peer], iter([b"1\n", b"2\n"]), check_success)
            peer.close()


class Sent:
    """The transport of a feed that is fed by hand."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


def frame(payload: bytes, first: int = 0x81) -> bytes:
    length = len(payload)
    if length < 126:
        return bytes((first, length)) + payload
    if length < 65_536:
        return bytes((first, 126)) + length.to_bytes(2, "big") + payload
    return bytes((first, 127)) + length.to_bytes(8, "big") + payload


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_frames_of_every_length_are_counted_however_they_are_cut(size: int) -> None:
    events = [
        json.dumps({"event_id": number, "text": "y" * length}).encode()
        for number, length in enumerate((1, 300, 70_000))
    ]
    stream = b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + frame(b'{"replay_until":3}') + frame(b"", 0x89)
    stream += b"".join(map(frame, events)) + frame((1001).to_bytes(2, "big") + b"bye", 0x88)
    tally, seen, sent = Tally(), [], Sent()
    feed = Subscriber("/ws", 0, tally, seen.append)
    feed.connection_made(sent)  # pyright: ignore[reportArgumentType]
    for start in range(0, len(stream), size):
        feed.data_received(stream[start : start + size])
    feed.connection_lost(None)
    assert feed.greeting.result() == {"replay_until": 3}
    assert seen == events
    assert tally.total == 3
    assert feed.lost.result() == 1001
    assert b"\x8a\x80" in sent.data, "the ping is answered"


async def test_a_refused_feed_tells_the_answer() -> None:
    feed = Subscriber("/ws", 0, Tally())
    feed.connection_made(Sent())  # pyright: ignore[reportArgumentType]
    feed.data_received(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    with pytest.raises(UnexpectedReply, match="503"):
        await feed.greeting
