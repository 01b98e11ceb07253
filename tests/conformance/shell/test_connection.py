"""What a stranger can do with the bytes of a connection: nothing but be answered, or refused, in turn."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from parley.serve.http import HEAD_BYTES_MAX, HEADERS_MAX, PIPELINED_MAX, HttpConnection
from parley.serve.shell import STRANGERS_BODY_BYTES_MAX
from tests.broker.test_server import certificate
from tests.conformance.shell.lines import (
    CHUNKED,
    JSON,
    KEY,
    UPGRADE,
    assert_is_ours,
    assert_refused,
    faulty_framings,
    replies,
    reply,
)
from tests.conformance.shell.servers import RATE, SECONDS, SERVERS, Served, ask, line_to, until

SMALL_BUFFER = 4_096


@contextmanager
def held_answers(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """No request is answered before the event is set."""
    released, answer = asyncio.Event(), served.shell._answer

    async def hold(*args: Any) -> Any:
        await released.wait()
        return await answer(*args)

    with monkeypatch.context() as patch:
        patch.setattr(served.shell, "_answer", hold)
        yield released


async def connections(served: Served, count: int) -> None:
    """Waits until the server has this many."""
    await until(lambda: len(served.server.connections.connections) == count)


async def test_a_request_that_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_heard(served: Served) -> None:
    for name, data in faulty_framings(served).items():
        async with line_to(served) as (reader, writer):
            writer.write(data + served.get())
            answers = await replies(reader)
            assert len(answers) == 1, name
            assert_refused(answers[0], 400, "INVALID_INPUT")
            assert answers[0].headers["connection"] == "close"
    assert served.shell.door.in_flight.count == 0


async def test_a_target_may_name_the_whole_address(served: Served) -> None:
    line = f"GET http://{served.host}{served.health}"
    assert (await ask(served, served.head(line, served.bearer))).status == 200


async def test_what_comes_after_the_body_decides_nothing(served: Served) -> None:
    trailer = f"0\r\n{served.bearer}\r\n\r\n".encode()
    answer = await ask(served, served.head(f"POST {served.posts}", JSON, CHUNKED) + trailer)
    assert answer.status in (401, 403), "a token in a trailer is no token"


@pytest.mark.parametrize("endless", [b"X-A: " + b"x" * 1024 * 1024, b"1;" + b"x" * 1024 * 1024])
async def test_framing_without_end_is_refused(served: Served, endless: bytes) -> None:
    """A trailer or the extension of a chunk that never ends is neither head nor body."""
    async with line_to(served) as (reader, writer):
        writer.write(served.post(CHUNKED) + (b"0\r\n" if endless.startswith(b"X") else b"") + endless)
        assert_refused(await reply(reader), 400, "INVALID_INPUT")


async def test_a_head_has_a_bounded_number_of_headers(served: Served) -> None:
    few = [f"X-{number}: y" for number in range(HEADERS_MAX - 2)]
    assert (await ask(served, served.get(*few))).status == 200
    assert_refused(await ask(served, served.get(*few, "X-More: y")), 400, "INVALID_INPUT")


async def test_of_headers_that_nobody_reads_none_is_kept(served: Served) -> None:
    """Each costs far more memory than it has bytes, and a connection can stay for minutes."""
    trailers = b"a:\r\n" * 10_000
    async with line_to(served) as (reader, writer):
        writer.write(served.post(CHUNKED) + b"2\r\n{}\r\n0\r\n" + trailers)
        await until(lambda: bool(served.server.connections.connections))
        (connection,) = cast("set[HttpConnection]", served.server.connections.connections)
        writer.write(b"\r\n" + served.get())
        await reply(reader)
        assert (await reply(reader)).status == 200
        assert not connection.headers
        writer.write(served.head(f"GET {served.health}")[:-2] + trailers)
        assert_refused(await reply(reader), 400, "INVALID_INPUT")
        assert not connection.headers


async def test_large_heads_in_a_row_are_each_measured_alone(served: Served) -> None:
    large = served.get(f"X-Padding: {'x' * (HEAD_BYTES_MAX // 2)}")
    async with line_to(served) as (reader, writer):
        writer.write(large * 3 + large[:-100])
        assert [(await reply(reader)).status for _ in range(3)] == [200] * 3
        writer.write(large[-100:])
        assert (await reply(reader)).status == 200


async def test_only_so_many_requests_wait_on_a_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_answers(served, monkeypatch) as released:
        async with line_to(served) as (reader, writer):
            writer.write(served.get() * (PIPELINED_MAX + 20))
            await connections(served, 1)
            released.set()
            answers = await replies(reader)
    assert [each.status for each in answers] == [200] * (PIPELINED_MAX + 1) + [400]


async def test_a_refusal_waits_for_the_answers_before_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for garbage in (b"NONSENSE\r\n\r\n", served.post(CHUNKED) + b"zz\r\n"):
        with held_answers(served, monkeypatch) as released:
            async with line_to(served) as (reader, writer):
                writer.write(served.get() * 2 + garbage)
                await connections(served, 1)
                released.set()
                answers = await replies(reader)
        assert [each.status for each in answers] == [200, 200, 400]
        await connections(served, 0)


async def test_a_body_that_goes_wrong_after_its_answer_gets_no_second_one(served: Served) -> None:
    async with line_to(served) as (reader, writer):
        writer.write(served.head(f"POST {served.posts}", JSON, CHUNKED))
        assert (await reply(reader)).status in (401, 403)
        writer.write(b"zz\r\n" + served.get())
        assert await replies(reader) == []


async def test_another_upgrade_than_ours_is_ignored(served: Served) -> None:
    """Some clients offer HTTP/2 with their first request."""
    async with line_to(served) as (reader, writer):
        writer.write(served.get("Connection: Upgrade", "Upgrade: h2c") + served.get())
        assert [(await reply(reader)).status for _ in range(2)] == [200, 200]
        writer.write(served.get())
        assert (await reply(reader)).status == 200


async def test_whoever_is_refused_before_100_continue_is_not_heard_further(served: Served) -> None:
    """Its body may come or not; the next request could be taken for it."""
    async with line_to(served) as (reader, writer):
        writer.write(served.head(f"POST {served.posts}", JSON, "Content-Length: 5", "Expect: 100-continue"))
        answer = await reply(reader)
        assert answer.status in (401, 403)
        assert answer.headers["connection"] == "close"
        writer.write(served.get())
        assert await replies(reader) == []


async def test_http_1_0_is_answered_once(served: Served) -> None:
    keep = served.get("Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0")
    async with line_to(served) as (reader, writer):
        writer.write(keep * 2)
        (answer,) = await replies(reader)
        assert (answer.status, answer.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("name", ["hub", "broker"])
async def test_a_connection_whose_answers_nobody_takes_is_not_upgraded(name: str, tmp_path: Path) -> None:
    """Whoever takes it over would not be told that its socket is full, and would fill the memory instead."""
    async with SERVERS[name](tmp_path) as served, line_to(served) as (reader, writer):
        writer.write(served.get())
        assert (await reply(reader)).status == 200
        (connection,) = cast("set[HttpConnection]", served.server.connections.connections)
        connection.pause_writing()
        writer.write(served.head("GET /ws", served.bearer, *UPGRADE, KEY))
        assert_refused(await reply(reader), 400, "INVALID_INPUT")


@pytest.mark.parametrize("name", ["hub", "broker"])
async def test_an_upgrade_waits_for_the_answers_before_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an answer would be written into the WebSocket."""
    async with SERVERS[name](tmp_path) as served:
        upgrade = served.head("GET /ws", served.bearer, *UPGRADE, KEY)
        with held_answers(served, monkeypatch) as released:
            async with line_to(served) as (reader, writer):
                writer.write(served.get() + upgrade)
                await connections(served, 1)
                released.set()
                answers = await replies(reader)
        assert [each.status for each in answers] == [200, 400]
        async with line_to(served) as (reader, writer):
            writer.write(served.get())
            assert (await reply(reader)).status == 200
            writer.write(upgrade)
            assert (await reply(reader)).status == 101, "an answered connection can be upgraded"


@pytest.mark.parametrize("name", ["hub", "broker"])
async def test_an_upgrade_that_is_more_than_a_get_is_refused_in_the_one_shape(name: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as served:
        asked = (served.bearer, *UPGRADE, KEY)
        upgrade = served.head("GET /ws", *asked)
        for data, status, code in (
            (served.head("POST /ws", *asked), 405, "METHOD_NOT_ALLOWED"),
            (upgrade.replace(b"HTTP/1.1", b"HTTP/1.0"), 400, "INVALID_INPUT"),
            (upgrade + b"\x81\x05hello", 400, "INVALID_INPUT"),
            (served.head("GET /ws", *asked, "Content-Length: 5") + b"hello", 400, "INVALID_INPUT"),
            (served.head("GET /ws", *asked, f"X-Padding: {'x' * 10_000}"), 400, "INVALID_INPUT"),
            (served.head(f"GET /ws?{'x' * 10_000}", *asked), 400, "INVALID_INPUT"),
            (served.head("GET http://evil.example/ws", *asked), 400, "INVALID_INPUT"),
        ):
            async with line_to(served) as (reader, writer):
                writer.write(data)
                (answer,) = await replies(reader)
                assert_refused(answer, status, code)


def unread_line(served: Served) -> socket.socket:
    """A connection that takes in next to nothing, to a server that cannot send ahead."""
    served.server._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    line.connect(("127.0.0.1", served.port))
    return line


@pytest.mark.parametrize("last", ["Connection: close", "Connection: keep-alive"])
async def test_a_reader_that_does_not_take_its_answers_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    monkeypatch.setattr(HttpConnection, "silence_seconds", 0.1)
    document = served.head("GET /openapi.json", served.bearer)
    closing = served.head("GET /openapi.json", served.bearer, last)
    with unread_line(served) as line:
        line.sendall(document * 20 + closing)
        await connections(served, 1)
        await connections(served, 0)
    assert served.shell.door.in_flight.count == 0


async def test_a_reader_that_takes_its_answers_slowly_gets_them_all(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpConnection, "silence_seconds", 3_600.0)
    async with line_to(served) as (reader, writer):
        served.server._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        writer.write(served.head("GET /openapi.json", served.bearer) * 20)
        await connections(served, 1)
        (connection,) = served.server.connections.connections
        for _ in range(20):
            assert (await reply(reader)).status == 200
            connection._look.cancel()  # type: ignore[union-attr]
            connection._close_if_stuck()  # type: ignore[union-attr]


@pytest.mark.parametrize("kept_waiting", ["body", "reader"])
async def test_whoever_keeps_the_server_waiting_makes_room(served: Served, kept_waiting: str) -> None:
    """Neither a body that does not come nor answers that nobody takes can fill a server."""
    most = 4
    served.server.connections._most = most
    data = {"body": served.post("Content-Length: 500"), "reader": served.head("GET /openapi.json", served.bearer) * 60}
    with ExitStack() as lines:
        for _ in range(2 * most):
            line = lines.enter_context(unread_line(served))
            await asyncio.to_thread(line.sendall, data[kept_waiting])
        await until(lambda: len(served.server.connections.waiting) == most)
        assert (await ask(served, served.get())).status == 200


@pytest.mark.parametrize("kept_waiting", ["body", "reader"])
async def test_whoever_keeps_the_server_waiting_does_not_hold_up_its_stop(
    served: Served, monkeypatch: pytest.MonkeyPatch, kept_waiting: str
) -> None:
    monkeypatch.setattr("parley.serve.server.STOP_PATIENCE_SECONDS", 0.1)
    unread = served.head("GET /openapi.json", served.bearer) * 60
    data = {"body": served.post("Content-Length: 500"), "reader": unread}
    with unread_line(served) as line:
        await asyncio.to_thread(line.sendall, data[kept_waiting])
        await connections(served, 1)
        await asyncio.wait_for(served.server.stop(3_600.0), SECONDS)
    assert served.shell.door.in_flight.count == 0


async def test_what_is_being_answered_is_not_given_up_for_a_newcomer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 3
    served.server.connections._most = most
    with held_answers(served, monkeypatch) as released:
        lines = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(most)]
        for _, writer in lines:
            writer.write(served.get())
        await until(lambda: len(served.server.connections.tasks) == most)
        async with line_to(served) as (reader, _):
            assert await replies(reader) == [], "there is no room"
        released.set()
        for reader, writer in lines:
            assert (await asyncio.wait_for(reply(reader), SECONDS)).status == 200
            writer.close()


async def test_a_stream_ends_with_its_connection_whatever_was_asked_behind_it(tmp_path: Path) -> None:
    async with SERVERS["daemon"](tmp_path) as served:
        feed = served.shell._server.feed
        async with line_to(served) as (reader, writer):
            writer.write(served.head("GET /v1/events", served.bearer) + served.get())
            await reader.readuntil(b": connected")
            assert len(feed) == 1
        await until(lambda: not len(feed))


@pytest.mark.parametrize(("name", "path"), [("hub", "/ui/login"), ("broker", "/v1/join")])
async def test_a_stranger_may_send_a_small_body_only(name: str, path: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as served:
        size = STRANGERS_BODY_BYTES_MAX + 1
        origin = [f"Origin: http://{served.host}"] if name == "hub" else []
        head = served.head(f"POST {path}", JSON, f"Content-Length: {size}", *origin)
        assert_refused(await ask(served, head + b" " * size), 413, "PAYLOAD_TOO_LARGE")


async def test_behind_a_proxy_only_its_own_word_says_who_asks(tmp_path: Path) -> None:
    async with SERVERS["broker"](tmp_path, limited=True, trusted_proxy=True) as served:

        async def asked(*said: str) -> int:
            lines = [f"X-Forwarded-For: {each}" for each in said]
            return (await ask(served, served.head("GET /v1/meshes", *lines))).status

        statuses: list[int] = []
        while 429 not in statuses:
            statuses.append(await asked(f"10.0.0.{len(statuses)}, 192.0.2.1"))
            assert len(statuses) < 100 * RATE
        assert set(statuses) == {403, 429}, "a name that a stranger made up is another's budget"
        while (status := await asked("192.0.2.2", "192.0.2.1")) != 429:
            assert status == 403
        assert served.shell.door.strangers is not None
        assert len(served.shell.door.strangers) <= 2


async def test_connections_that_have_not_agreed_on_tls_make_room(tmp_path: Path) -> None:
    cert, private = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, private)
    most = 5
    async with SERVERS["broker"](tmp_path, tls=context) as served:
        served.server.connections._most = most
        silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(most)]
        silent[1][1].write(b"\x16\x03\x01")
        garbage = await asyncio.open_connection("127.0.0.1", served.port)
        garbage[1].write(served.get())
        await asyncio.wait_for(garbage[0].read(), SECONDS)
        await asyncio.wait_for(silent[0][0].read(), SECONDS)
        trusts = ssl.create_default_context(cafile=str(cert))
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=trusts)
            for _ in range(2):
                writer.write(served.get())
                answer = await asyncio.wait_for(reply(reader), SECONDS)
                assert answer.status == 200
                assert_is_ours(answer)
            writer.close()
        for _, writer in (*silent, garbage):
            writer.close()
        await connections(served, 0)
