"""What each of our servers promises to whoever knocks: one suite for the hub, the daemon and the broker."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from parley.serve.http import HEAD_BYTES_MAX, PROGRESS_BYTES_MIN, HttpConnection
from parley.serve.shell import GIVEN_ONCE
from tests.conformance.shell.lines import CHUNKED, KEY, UPGRADE, assert_is_ours, assert_refused, reply
from tests.conformance.shell.servers import RATE, SECONDS, SERVERS, Served, ask, line_to


async def test_an_answer_carries_its_headers_and_the_callers_own_request_id(served: Served) -> None:
    answer = await ask(served, served.head(f"GET {served.health}", served.bearer))
    assert answer.status == 200
    assert_is_ours(answer)
    named = await ask(served, served.head(f"GET {served.health}", served.bearer, "X-Request-ID: mine-7"))
    assert named.headers["x-request-id"] == "mine-7"


@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        ("GET /nothing", 404, "NOT_FOUND"),
        ("DELETE /openapi.json", 405, "METHOD_NOT_ALLOWED"),
        ("", 400, "INVALID_INPUT"),
    ],
)
async def test_what_is_not_there_is_refused_in_one_shape(served: Served, line: str, status: int, code: str) -> None:
    data = served.head(line, served.bearer) if line else b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"
    assert_refused(await ask(served, data), status, code)


@pytest.mark.parametrize("name", [name.decode() for name in GIVEN_ONCE if name not in (b"content-length", b"origin")])
async def test_a_header_that_decides_something_is_given_once(served: Served, name: str) -> None:
    value = {"host": served.host, "authorization": f"Bearer {served.token}"}.get(name, "x")
    method, path = served.closed
    lines = [f"{name}: {value}"] * (1 if name == "host" else 2)
    assert_refused(await ask(served, served.head(f"{method} {path}", *lines)), 400, "INVALID_INPUT")


async def test_h12_a_head_beyond_its_limit_is_refused_also_when_it_comes_at_once(served: Served) -> None:
    for size in (HEAD_BYTES_MAX, 180_000, 1024 * 1024):
        async with line_to(served) as (reader, writer):
            writer.write(served.head(f"GET {served.health}", served.bearer, f"X-Padding: {'x' * size}"))
            answer = await reply(reader)
            assert_refused(answer, 400, "INVALID_INPUT")
            assert "too large" in answer.body["error"]
    within = served.head(f"GET {served.health}", served.bearer, f"X-Padding: {'x' * (HEAD_BYTES_MAX - 2_000)}")
    assert (await ask(served, within)).status == 200


async def test_a_sender_that_only_trickles_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then would keep a connection busy for ever, in the head as in the body."""
    monkeypatch.setattr(HttpConnection, "silence_seconds", 0.1)
    method, path = ("POST", served.posts)
    body = served.head(f"{method} {path}", served.bearer, "Content-Type: application/json", "Content-Length: 9000")
    for beginning in (f"GET {served.health} HT".encode(), body):
        async with line_to(served) as (reader, writer):
            writer.write(beginning)
            trickling = asyncio.create_task(_trickle(writer))
            try:
                while await reader.read(1_000):
                    pass
            except ConnectionResetError:
                pass
            trickling.cancel()
    assert served.shell.door.in_flight.count == 0


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await asyncio.sleep(0.01)


async def test_a_sender_that_gets_on_is_heard_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patience is with bytes, not with time: a large body may take several looks."""
    monkeypatch.setattr(HttpConnection, "silence_seconds", 3_600.0)
    async with line_to(served) as (reader, writer):
        writer.write(
            served.head(
                f"POST {served.posts}", served.bearer, "Content-Type: application/json", "Content-Length: 15000"
            )
        )
        connection = await _only_connection(served)
        connection._close_if_stuck()
        for _ in range(3):
            connection._heard_bytes = PROGRESS_BYTES_MIN
            connection._look.cancel()
            connection._close_if_stuck()
        writer.write(b" " * 15_000)
        assert (await reply(reader)).status == 400


async def _only_connection(served: Served) -> HttpConnection:
    async with asyncio.timeout(SECONDS):
        while True:
            found = [each for each in served.server.connections.connections if isinstance(each, HttpConnection)]
            if found and found[0].cycle is not None:
                return found[0]
            await asyncio.sleep(0.001)


async def test_the_connection_that_waited_longest_makes_room(served: Served) -> None:
    most = 5
    served.server.connections._most = most
    lines = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(most)]
    try:
        for reader, writer in lines[1:]:
            writer.write(served.head(f"GET {served.health}", served.bearer))
            assert (await reply(reader)).status == 200
        assert (await ask(served, served.head(f"GET {served.health}", served.bearer))).status == 200
        async with asyncio.timeout(SECONDS):
            assert await lines[0][0].read() == b"", "the one that never asked for anything"
    finally:
        for _, writer in lines:
            writer.close()


async def test_a_fault_of_ours_is_one_answer_and_not_the_end_of_the_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(served.shell, "_answer", fail)
    async with line_to(served) as (reader, writer):
        for _ in range(2):
            writer.write(served.head(f"GET {served.health}", served.bearer))
            answer = await reply(reader)
            assert_refused(answer, 500, "INTERNAL_ERROR")
            assert "secret" not in str(answer.body)


async def test_strangers_are_limited_and_use_up_nobody_elses_budget(limited: Served) -> None:
    method, path = limited.closed
    async with line_to(limited) as (reader, writer):
        statuses: list[int] = []
        while 429 not in statuses:
            writer.write(limited.head(f"{method} {path}", "Authorization: Bearer wrong"))
            answer = await reply(reader)
            statuses.append(answer.status)
            assert len(statuses) < 100 * RATE
        assert_refused(answer, 429, "RATE_LIMITED")
        assert int(answer.headers["retry-after"]) >= 1
    assert (await ask(limited, limited.head(f"{method} {path}", limited.bearer))).status == 200


@pytest.mark.parametrize("name", ["hub", "broker"])
async def test_h12_a_malformed_upgrade_is_refused_in_the_one_shape(name: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as served:
        for headers in (UPGRADE, (*UPGRADE[:2], "Sec-WebSocket-Version: 7", KEY), (*UPGRADE, "Sec-WebSocket-Key: x")):
            answer = await ask(served, served.head("GET /ws", served.bearer, *headers))
            assert_refused(answer, 400, "INVALID_INPUT")
        elsewhere = await ask(served, served.head("GET /elsewhere", served.bearer, *UPGRADE, KEY))
        assert_refused(elsewhere, 404, "NOT_FOUND")


@pytest.mark.parametrize("name", ["hub", "broker"])
async def test_h11_upgrades_are_limited(name: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path, limited=True) as served:
        statuses: list[int] = []
        while 429 not in statuses:
            answer = await ask(served, served.head("GET /ws", "Authorization: Bearer wrong", *UPGRADE, KEY))
            statuses.append(answer.status)
            assert len(statuses) < 100 * RATE
        assert_refused(answer, 429, "RATE_LIMITED")


@pytest.mark.parametrize("line", ["GET /nowhere", "PATCH {health}", "GET {health}\nOrigin: https://evil.example"])
async def test_whatever_is_refused_before_the_caller_is_known_is_limited(limited: Served, line: str) -> None:
    first, *headers = line.format(health=limited.health).split("\n")
    statuses: list[int] = []
    async with line_to(limited) as (reader, writer):
        while 429 not in statuses:
            writer.write(limited.head(first, *headers))
            answer = await reply(reader)
            statuses.append(answer.status)
            assert len(statuses) < 100 * RATE
    assert_refused(answer, 429, "RATE_LIMITED")
    known = await ask(limited, limited.head(" ".join(limited.closed), limited.bearer))
    assert known.status == 200


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        ("Transfer-Encoding: gzip, chunked", 400, "INVALID_INPUT"),
        ("Content-Encoding: gzip", 415, "INVALID_INPUT"),
    ],
)
async def test_a_body_that_nothing_here_would_open_is_refused(
    served: Served, header: str, status: int, code: str
) -> None:
    chunked = () if header.startswith("Transfer") else (CHUNKED,)
    answer = await ask(served, served.post(header, *chunked) + b"2\r\n{}\r\n0\r\n\r\n")
    assert_refused(answer, status, code)


@pytest.mark.parametrize("name", ["hub", "daemon"])
@pytest.mark.parametrize("said", ["application/jsonp", "text/plain; a=application/json", "text/plain"])
async def test_only_json_is_taken_for_json(name: str, said: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as served:
        head = served.head(f"POST {served.posts}", served.bearer, f"Content-Type: {said}", "Content-Length: 2")
        assert_refused(await ask(served, head + b"{}"), 415, "INVALID_INPUT")


async def test_blank_lines_do_not_keep_a_connection_that_asks_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpConnection, "silence_seconds", 0.05)
    async with line_to(served) as (reader, writer):
        writer.write(served.get())
        await reply(reader)

        async def trickle() -> None:
            while True:
                writer.write(b"\r\n")
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        with suppress(ConnectionError):  # of a line that comes in the very moment of the close
            assert await reader.read() == b""
        trickling.cancel()


@pytest.mark.parametrize("name", ["hub", "broker"])
async def test_an_upgrade_is_refused_while_the_server_stops(name: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as served:
        served.shell.door.in_flight.close()
        answer = await ask(served, served.head("GET /ws", served.bearer, *UPGRADE, KEY))
        assert_refused(answer, 503, "SHUTTING_DOWN")
        assert answer.headers["retry-after"]
