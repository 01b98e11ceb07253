"""A daemon's HTTP on a real socket, byte for byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from parley.daemon.inbox.events import append_event
from parley.serve import bind
from parley.serve.http import IDLE_LOOKS, HttpConnection
from parley.serve.server import HttpServer
from tests.daemon.served_daemon import ServedDaemon

SECONDS = 60


class Line(NamedTuple):
    """A connection to the daemon: a program's end of it, and the daemon's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: HttpServer

    def look(self, times: int) -> None:
        """Lets the daemon look so often whether the program has said anything."""
        for _ in range(times):
            for connection in list(self.server.connections.connections):
                assert isinstance(connection, HttpConnection)
                connection._look.cancel()
                connection._close_if_stuck()


@asynccontextmanager
async def connected(served: ServedDaemon) -> AsyncIterator[Line]:
    listening = bind("127.0.0.1", 0).socket
    server = HttpServer(served.api("unix"), listening)
    await server.start()
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    try:
        async with asyncio.timeout(SECONDS):
            yield Line(reader, writer, server)
    finally:
        writer.close()
        served.daemon.feed.close()
        await server.stop(SECONDS)


async def answer(reader: asyncio.StreamReader, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    content = await reader.readexactly(int(headers["content-length"])) if body else b""
    return int(status.split()[1]), headers, content


async def test_answers_come_in_the_order_of_what_was_asked_on_one_connection(served: ServedDaemon) -> None:
    async with connected(served) as (reader, writer, _):
        writer.write(
            b"GET /v1/version HTTP/1.1\r\n\r\nGET /v1/nothing HTTP/1.1\r\n\r\nGET /v1/version HTTP/1.1\r\n\r\n"
        )
        answers = [await answer(reader) for _ in range(3)]
    assert [status for status, _, _ in answers] == [200, 404, 200]
    assert all(headers["x-content-type-options"] == "nosniff" for _, headers, _ in answers)
    assert json.loads(answers[1][2])["code"] == "NOT_FOUND"


async def test_an_answer_to_head_has_no_body_so_that_the_next_answer_is_understood(served: ServedDaemon) -> None:
    async with connected(served) as (reader, writer, _):
        writer.write(b"HEAD /v1/version HTTP/1.1\r\n\r\nGET /v1/version HTTP/1.1\r\n\r\n")
        assert (await answer(reader, body=False))[0] == 405
        assert (await answer(reader))[0] == 200


async def test_whoever_hangs_up_while_waiting_for_the_inbox_waits_no_longer(served: ServedDaemon) -> None:
    async with connected(served) as (_, writer, _):
        writer.write(b"GET /v1/inbox?wait_seconds=25 HTTP/1.1\r\n\r\n")
        await _until(lambda: len(served.daemon.feed) == 1)
        writer.close()
        async with asyncio.timeout(20):  # less than it would have waited
            await _until(lambda: len(served.daemon.feed) == 0)


async def _until(condition: Callable[[], bool]) -> None:
    # The daemon tells nobody of this.
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_connection_close_is_honoured(served: ServedDaemon) -> None:
    async with connected(served) as (reader, writer, _):
        writer.write(b"GET /v1/version HTTP/1.1\r\nConnection: close\r\n\r\n")
        status, headers, _ = await answer(reader)
        assert (status, headers["connection"]) == (200, "close")
        assert await reader.read() == b""


async def test_what_is_not_http_is_400_as_json_and_ends_the_connection(served: ServedDaemon) -> None:
    async with connected(served) as (reader, writer, _):
        writer.write(b"NONSENSE\r\n\r\n")
        status, headers, body = await answer(reader)
        assert (status, json.loads(body)["code"]) == (400, "INVALID_INPUT")
        assert headers["x-content-type-options"] == "nosniff"
        assert await reader.read() == b""


async def test_whoever_follows_a_stream_need_not_say_anything(served: ServedDaemon) -> None:
    async with connected(served) as line:
        line.writer.write(b"GET /v1/events HTTP/1.1\r\n\r\n")
        await line.reader.readuntil(b": connected")
        line.look(IDLE_LOOKS + 3)
        now_ms = served.clock.now_ms()
        event = await served.daemon.store.write_inbox(
            lambda db: append_event(db, "system", {"name": "x"}, now_ms=now_ms)
        )
        served.daemon.feed.publish([event])
        await line.reader.readuntil(b"event: system")


async def test_whoever_asks_nothing_for_long_is_hung_up_on(served: ServedDaemon) -> None:
    async with connected(served) as line:
        line.writer.write(b"GET /v1/version HTTP/1.1\r\n\r\n")
        assert (await answer(line.reader))[0] == 200
        line.look(IDLE_LOOKS)
        line.writer.write(b"GET /v1/version HTTP/1.1\r\n\r\n")
        assert (await answer(line.reader))[0] == 200, "the first look found that something had been said"
        line.look(1 + IDLE_LOOKS)
        assert await line.reader.read() == b""
