"""What is said to a server in bytes, and what it answers."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from parley.serve.security_headers import SECURITY_HEADERS

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
CHUNKED = "Transfer-Encoding: chunked"
JSON = "Content-Type: application/json"


@dataclass
class Spoken:
    """A server, as whoever speaks to it knows it."""

    name: str
    port: int
    host: str
    token: str
    health: str
    closed: tuple[str, str]
    """Method and path of something that needs the token."""
    posts: str
    """A path that takes a body."""

    def head(self, line: str, *headers: str) -> bytes:
        """The head of a request that this server takes for its own."""
        return "\r\n".join([f"{line} HTTP/1.1", f"Host: {self.host}", *headers, "", ""]).encode()

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.token}"

    def get(self, *headers: str) -> bytes:
        """A request that is answered with 200."""
        return self.head(f"GET {self.health}", self.bearer, *headers)

    def post(self, *headers: str) -> bytes:
        """The head of a request with a body."""
        return self.head(f"POST {self.posts}", self.bearer, JSON, *headers)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


async def reply(reader: asyncio.StreamReader) -> Reply:
    """The next answer on a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    is_json = headers.get("content-type", "").startswith("application/json")
    return Reply(int(status.split()[1]), headers, json.loads(body) if is_json and body else body)


async def replies(reader: asyncio.StreamReader) -> list[Reply]:
    """All answers until the server ends the connection."""
    found: list[Reply] = []
    while True:
        try:
            found.append(await reply(reader))
        except ConnectionResetError:
            return found
        except asyncio.IncompleteReadError as ended:
            if ended.partial:
                raise
            return found


def faulty_framings(served: Spoken) -> dict[str, bytes]:
    """Requests that two readers could take for different ones."""
    whole = b"0\r\n\r\n"
    length = "Content-Length: 5"
    health = f"GET {served.health} HTTP/1.1\r\nHost: {served.host}\r\n{served.bearer}\r\n".encode()
    return {
        "a length and chunks": served.post(length, CHUNKED) + whole,
        "chunks and a length": served.post(CHUNKED, length) + whole,
        "the same length twice": served.post(length, length) + b"hello",
        "two lengths": served.post(length, "Content-Length: 6") + b"hello!",
        "a list of lengths": served.post("Content-Length: 5, 5") + b"hello",
        "a length with a sign": served.post("Content-Length: +5") + b"hello",
        "a length beyond all numbers": served.post(f"Content-Length: {'9' * 30}") + b"hello",
        "chunks twice": served.post(CHUNKED, CHUNKED) + whole,
        "something like chunks": served.post("Transfer-Encoding: xchunked") + whole,
        "identity": served.post("Transfer-Encoding: identity") + whole,
        "chunks that are not last": served.post("Transfer-Encoding: chunked, identity") + whole,
        "a chunk longer than it says": served.post(CHUNKED) + b"1\r\nabc" + whole,
        "a chunk of a negative length": served.post(CHUNKED) + b"-1\r\na\r\n" + whole,
        "a chunk that ends in a bare LF": served.post(CHUNKED) + b"1\na\r\n" + whole,
        "a header on two lines": health + b"X-A: b\r\n c\r\n\r\n",
        "a bare LF": health + b"X-A: b\nX-B: c\r\n\r\n",
        "a bare CR": health + b"X-A: b\rX-B: c\r\n\r\n",
        "a blank before the colon": health + b"X-A : b\r\n\r\n",
        "a NUL in a header": health + b"X-A: b\0c\r\n\r\n",
        "a NUL in the path": served.head(f"GET {served.health}\0", served.bearer),
        "another host in the target": served.head(f"GET http://evil.example{served.health}", served.bearer),
        "a tunnel": served.head("CONNECT evil.example:443", served.bearer),
        "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "an upgrade with a body": served.post("Connection: upgrade", "Upgrade: h2c", length) + b"hello",
    }


def assert_is_ours(answer: Reply) -> None:
    """An answer has the security headers, the request's id and the name of the process, whoever made it."""
    for name, value in SECURITY_HEADERS:
        assert answer.headers[name.decode()] == value.decode()
    assert re.fullmatch("[0-9a-f-]{36}", answer.headers["x-request-id"])
    assert answer.headers["x-instance-id"]


def assert_refused(answer: Reply, status: int, code: str) -> None:
    assert (answer.status, answer.body["code"]) == (status, code)
    assert_is_ours(answer)
