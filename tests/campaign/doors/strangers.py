"""Strangers who hold connections: they say nothing, or half of something, or a byte now and then, or never read."""

import asyncio
import random
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from tests.campaign.doors.knocks import SMUGGLED
from tests.campaign.doors.lines import HOME, SOURCES, greeting
from tests.campaign.doors.servers import Target
from tests.conformance.shell.lines import CHUNKED, JSON

DESCRIPTORS_BESIDE = 512
AT_ONCE = 64
"""Connections that are on their way at the same time."""
SMALL_BUFFER = 4_096
WITH_TLS_ONE_IN = 20
UNREAD_REQUESTS = 60
SHORT_LINES = 15_000
"""Nearly 128 KiB of headers; what is made of each of them is far larger than it is."""


class Stranger(asyncio.Protocol):
    """One connection that says what it has to say, and is there until the server ends it."""

    def __init__(self, gang: "Strangers", says: bytes, drips: bytes = b"", seconds: float = 0) -> None:
        self.came = False
        self._gang = gang
        self._says, self._drips, self._seconds = says, drips, seconds
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.came = True
        self._transport = cast("asyncio.Transport", transport)
        self._gang.enter(self)
        self._transport.write(self._says)
        if self._drips:
            self._drip(0)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()
        self._gang.drop(self)

    def leave(self) -> None:
        """Ends it from this side."""
        self._transport.abort()

    def _drip(self, number: int) -> None:
        self._transport.write(self._drips[number : number + 1])
        following = (number + 1) % len(self._drips)
        self._next = asyncio.get_running_loop().call_later(self._seconds, self._drip, following)


class Strangers:
    """All who hold connections to one server. ``room`` is what this process has descriptors for."""

    def __init__(self, target: Target, rng: random.Random, room: asyncio.Semaphore) -> None:
        self.opened = self.turned_away = self.most = self._tried = 0
        self._target, self._rng, self._room = target, rng, room
        self._here: set[Stranger] = set()
        self._readers: list[socket.socket] = []

    async def open_halves(self, count: int, *, pause_seconds: float = 0.0) -> None:
        """So many connections of which none becomes a request; with a pause they come one by one."""
        halves = _halves(self._target, self._rng)
        numbers = iter(range(count))

        async def open_some() -> None:
            for number in numbers:
                agree = self._target.tls is not None and number % WITH_TLS_ONE_IN == 0
                await self._open(self._rng.choice(halves[agree]), in_clear=not agree)
                await asyncio.sleep(pause_seconds)

        await asyncio.gather(*(open_some() for _ in range(1 if pause_seconds else AT_ONCE)))

    async def drip(self, count: int, seconds: float) -> None:
        """Slow senders: what each has to say never ends, and comes byte by byte."""
        slow = _slow(self._target)
        for number in range(count):
            says, drips, in_clear = slow[number % len(slow)]
            await self._open(says, drips, seconds, in_clear=in_clear)

    async def read_nothing(self, count: int) -> None:
        """Readers that ask for much and take none of it."""
        for number in range(count):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            line.bind((SOURCES[number % len(SOURCES)], 0))
            self._readers.append(await asyncio.to_thread(self._ask_much, line))

    def enter(self, stranger: Stranger) -> None:
        """One more is connected."""
        self.opened += 1
        self._here.add(stranger)
        self.most = max(self.most, len(self._here))

    def drop(self, stranger: Stranger) -> None:
        """One is connected no longer."""
        self._here.discard(stranger)
        self._room.release()

    def leave(self) -> None:
        """Ends what the server has not ended."""
        for each in list(self._here):
            each.leave()
        for line in self._readers:
            line.close()

    def _ask_much(self, line: socket.socket) -> socket.socket:
        line.settimeout(30)
        line.connect((HOME, self._target.port))
        if self._target.tls is not None:
            line = self._target.tls.wrap_socket(line, server_hostname="localhost")
        line.sendall(self._target.head("GET /openapi.json", self._target.bearer) * UNREAD_REQUESTS)
        return line

    async def _open(self, says: bytes, drips: bytes = b"", seconds: float = 0, *, in_clear: bool = False) -> None:
        await self._room.acquire()
        stranger = Stranger(self, says, drips, seconds)
        self._tried += 1
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: stranger,
                HOME,
                self._target.port,
                local_addr=(SOURCES[self._tried % len(SOURCES)], 0),
                ssl=None if in_clear else self._target.tls,
            )
        except OSError:
            if not stranger.came:
                self.turned_away += 1
                self._room.release()


@contextmanager
def descriptors() -> Iterator[asyncio.Semaphore]:
    """As many as the system gives, less what this process needs otherwise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield asyncio.Semaphore(max(1, min(hard, 1 << 20) - DESCRIPTORS_BESIDE))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _halves(target: Target, rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    """Beginnings that nothing follows: of a connection, and of one that has agreed on TLS."""
    whole = target.makes(f"{SMUGGLED}-half")
    head = whole.index(b"\r\n\r\n")
    http = [
        b"",
        whole[:1],
        whole[: rng.randrange(2, 20)],
        whole[: rng.randrange(20, head)],
        whole[:head],
        target.get(f"X-Padding: {'x' * 8_000}")[:-2],
        target.get(*["X-A: y"] * SHORT_LINES)[:-2],
        target.head(f"POST {target.posts}", JSON, CHUNKED) + b"0\r\n" + b"X-A: y\r\n" * SHORT_LINES,
    ]
    if target.public is not None:
        line, *headers = target.public
        http.append(target.head(line, *headers, JSON, "Content-Length: 500") + b" " * 100)
    if target.tls is None:
        return http, http
    hello = greeting(target)
    return [b"", hello[:1], hello[: len(hello) // 2], hello[:-1], hello, b"\x16\x03\x01\x3f\xff" + bytes(8_000)], http


def _slow(target: Target) -> list[tuple[bytes, bytes, bool]]:
    """What a slow sender says at once, what it says byte by byte and again and again, and whether without TLS."""
    found = [
        (b"", target.head(f"GET {target.health}", target.bearer)[:-2] + b"X-A: b\r\n" * 1_000, False),
        (target.post("Content-Length: 9000"), b" ", False),
        (target.post(CHUNKED), b"1\r\n \r\n", False),
        (target.post(CHUNKED) + b"0\r\n", b"X-A: b\r\n", False),
    ]
    if target.tls is not None:
        found.append((b"", greeting(target)[:-1] + bytes(1_000), True))
    return found
