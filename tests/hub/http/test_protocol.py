"""HTTP on a real socket, byte for byte: one write per answer, and no way to confuse the connection."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from parley.serve.http import HEAD_BYTES_MAX, HttpConnection
from tests.hub.conftest import MakeHub
from tests.hub.hubs import DEADLINE_SECONDS, INSTANCE_ID, OpenHub


class Line:
    """One connection, spoken to in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), DEADLINE_SECONDS)).decode()
        status, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        content = await self.reader.readexactly(int(headers["content-length"])) if body else b""
        return int(status.split()[1]), headers, content

    async def ended(self) -> bool:
        """Whether the hub closes the connection without another word."""
        return await asyncio.wait_for(self.reader.read(), DEADLINE_SECONDS) == b""


@asynccontextmanager
async def connected(hub: OpenHub) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", hub.hub.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def request(hub: OpenHub, line: str = "GET /api/v1/channels", *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {hub.token}", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
async def hub(make_server: MakeHub) -> OpenHub:
    return await make_server({"limits": {"body_bytes_max": 200_000}})


async def test_a_connection_is_kept_and_answers_come_in_order(hub: OpenHub) -> None:
    async with connected(hub) as line:
        for number in range(3):
            line.send(request(hub, "POST /api/v1/_ping", body=json.dumps({"echo": number}).encode()))
        for number in range(3):
            status, _, body = await line.answer()
            assert (status, json.loads(body)["echo"]) == (200, number)


async def test_connection_close_is_honoured(hub: OpenHub) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "GET /health", "Connection: close"))
        status, headers, _ = await line.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await line.ended()


async def test_an_answer_to_head_has_no_body_so_that_the_next_answer_is_understood(hub: OpenHub) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "HEAD /health"))
        status, headers, _ = await line.answer(body=False)
        assert (status, headers["allow"]) == (405, "GET")
        line.send(request(hub, "GET /health"))
        status, _, body = await line.answer()
        assert (status, json.loads(body)["status"]) == (200, "ok")


@pytest.mark.parametrize("size", [200_001, 5_000_000])
async def test_after_a_413_by_content_length_the_connection_goes_on(hub: OpenHub, size: int) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "POST /api/v1/channels", body=b"x" * size))
        status, _, body = await line.answer()
        assert (status, json.loads(body)["code"]) == (413, "PAYLOAD_TOO_LARGE")
        line.send(request(hub, "GET /health"))
        assert (await line.answer())[0] == 200


async def test_a_chunked_body_counts_by_its_actual_size(hub: OpenHub) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "POST /api/v1/channels", "Transfer-Encoding: chunked", "Content-Type: application/json"))
        for _ in range(60):
            line.send(b"fa0\r\n" + b" " * 4000 + b"\r\n")
        status, _, body = await line.answer()
        assert (status, json.loads(body)["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_chunked_body_within_the_limit_is_read_whole(hub: OpenHub) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "POST /api/v1/channels", "Transfer-Encoding: chunked", "Content-Type: application/json"))
        for part in (b'{"na', b'me":"ch', b'unks"}'):
            line.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        line.send(b"0\r\n\r\n")
        status, _, body = await line.answer()
        assert (status, json.loads(body)["channel"]["name"]) == (201, "chunks")


async def test_expect_100_continue_is_answered(hub: OpenHub) -> None:
    body = b'{"echo":1}'
    async with connected(hub) as line:
        head = request(hub, "POST /api/v1/_ping", "Expect: 100-continue", body=body)
        line.send(head.removesuffix(body))
        assert (
            await asyncio.wait_for(line.reader.readuntil(b"\r\n\r\n"), DEADLINE_SECONDS)
            == b"HTTP/1.1 100 Continue\r\n\r\n"
        )
        line.send(body)
        assert (await line.answer())[0] == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET /a b HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_400_as_json_and_ends_the_connection(hub: OpenHub, garbage: bytes) -> None:
    async with connected(hub) as line:
        line.send(garbage)
        status, headers, body = await line.answer()
        assert (status, json.loads(body)["code"]) == (400, "INVALID_INPUT")
        assert headers["x-content-type-options"] == "nosniff"
        assert (headers["x-instance-id"], headers["x-protocol-version"]) == (INSTANCE_ID, "v1")
        assert re.fullmatch("[0-9a-f-]{36}", headers["x-request-id"])
        assert await line.ended()


async def test_two_lengths_are_refused(hub: OpenHub) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "POST /api/v1/_ping", "Content-Length: 3", "Transfer-Encoding: chunked"))
        line.send(b"0\r\n\r\n")
        assert (await line.answer())[0] == 400


@pytest.mark.parametrize(
    "path", ["/%ff%fe", "/api/v1/messages/%00", "/api/v1/topics/%2e%2e%2fx", "/%E0%A4%A", "//health"]
)
async def test_odd_paths_are_404(hub: OpenHub, path: str) -> None:
    async with connected(hub) as line:
        line.send(request(hub, f"GET {path}"))
        status, _, body = await line.answer()
        assert (status, json.loads(body)["code"]) == (404, "NOT_FOUND")


async def test_a_caller_that_hangs_up_in_the_middle_of_its_body_harms_nobody(hub: OpenHub) -> None:
    async with connected(hub) as line:
        line.send(request(hub, "POST /api/v1/channels", body=b'{"name":"half"}')[:-4])
    assert (await hub.api.get("/api/v1/channels"))["channels"] == []
    await hub.api.channel("whole")
    assert hub.fold_problems() == []


async def test_a_body_that_never_ended_is_not_acted_on_although_it_is_whole_json(hub: OpenHub) -> None:
    for head in ("Transfer-Encoding: chunked", "Content-Length: 99"):
        async with connected(hub) as line:
            line.send(request(hub, "POST /api/v1/channels", head, "Content-Type: application/json"))
            line.send(b'f\r\n{"name":"half"}\r\n' if "chunked" in head else b'{"name":"half"}')
    await hub.api.channel("whole")
    assert [channel["name"] for channel in (await hub.api.get("/api/v1/channels"))["channels"]] == ["whole"]


@pytest.mark.parametrize("header", [b"X-Long: " + b"x" * HEAD_BYTES_MAX, b"X-Many: y\r\n" * HEAD_BYTES_MAX])
async def test_a_head_without_end_is_refused(hub: OpenHub, header: bytes) -> None:
    async with connected(hub) as line:
        # One byte too many and no more: what the hub leaves unread would reset the connection and lose its answer.
        line.send((b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header)[: HEAD_BYTES_MAX + 1])
        status, _, body = await line.answer()
        assert (status, json.loads(body)["code"]) == (400, "INVALID_INPUT")


@pytest.mark.parametrize(
    "part", [b"", b"GET /health HT", b"POST /api/v1/_ping HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_caller_that_falls_silent_in_a_request_is_hung_up_on(
    hub: OpenHub, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(HttpConnection, "silence_seconds", 0.05)
    part = part.replace(b"Content-Length", f"Authorization: Bearer {hub.token}\r\nContent-Length".encode())
    async with connected(hub) as line:
        line.send(part)
        assert await line.ended()
    assert hub.hub.in_flight.count == 0


async def test_a_caller_between_two_requests_is_not_hung_up_on(hub: OpenHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "silence_seconds", 0.2)
    async with connected(hub) as patient, connected(hub) as silent:
        patient.send(request(hub, "GET /health"))
        assert (await patient.answer())[0] == 200
        silent.send(b"GET")
        assert await silent.ended()  # so the patient one was looked at too
        patient.send(request(hub, "GET /health"))
        assert (await patient.answer())[0] == 200


async def test_a_caller_that_asks_nothing_more_for_long_is_hung_up_on(
    hub: OpenHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpConnection, "silence_seconds", 0.05)
    async with connected(hub) as line:
        line.send(request(hub, "GET /health"))
        assert (await line.answer())[0] == 200
        assert await line.ended()


async def test_a_large_answer_arrives_whole(hub: OpenHub) -> None:
    topic = await hub.api.topic(await hub.api.channel())
    for number in range(20):
        await hub.api.post(topic, f"{number} " + "x" * 50_000)
    page = await hub.api.get("/api/v1/messages", topic_id=topic)
    assert [message["content_raw"].split()[0] for message in page["messages"]] == [str(n) for n in reversed(range(20))]
