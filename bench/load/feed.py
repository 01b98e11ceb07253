"""A WebSocket subscriber on a raw socket. It finds the end of every frame, and looks inside only when asked to."""

import asyncio
import json
import os
import struct
from collections.abc import Callable
from typing import Any, cast

from bench.load.peer import UnexpectedReply

_TEXT, _CLOSE, _PING = 0x81, 0x88, 0x89


class Tally:
    """Counts deliveries over any number of subscribers and tells when there were enough."""

    def __init__(self) -> None:
        self.total = 0
        self._goal = 0
        self._reached: asyncio.Future[None] | None = None

    def add(self, count: int) -> None:
        self.total += count
        if self._reached is not None and self.total >= self._goal and not self._reached.done():
            self._reached.set_result(None)

    def fail(self, error: Exception) -> None:
        if self._reached is not None and not self._reached.done():
            self._reached.set_exception(error)

    async def reaches(self, goal: int) -> None:
        """Returns once ``total`` is at least ``goal``; raises what a subscriber met before."""
        self._goal, self._reached = goal, asyncio.get_running_loop().create_future()
        self.add(0)
        await self._reached


class Subscriber(asyncio.Protocol):
    """One feed. ``greeting`` is the hub's ``hello_ok``; every later text frame counts as an event."""

    def __init__(
        self,
        path: str,
        after: int,
        tally: Tally,
        on_event: Callable[[bytes], None] | None = None,
        subscriptions: dict[str, list[str]] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.greeting: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.lost: asyncio.Future[int | None] = loop.create_future()
        """The close code once the connection ended, None where there was none."""
        self._path = path
        self._hello: dict[str, Any] = {"type": "hello", "after_event_id": after}
        if subscriptions is not None:
            self._hello["subscriptions"] = subscriptions
        self._tally = tally
        self._on_event = on_event
        self._upgraded = False
        self._rest = b""
        self._code: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(
            f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )

    def connection_lost(self, exc: Exception | None) -> None:
        error = ConnectionError(f"the feed ended with code {self._code}")
        if not self.greeting.done():
            self.greeting.set_exception(error)
        if not self.lost.done():
            self.lost.set_result(self._code)
        self._tally.fail(error)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        if not self._upgraded:
            data = self._handshake(data)
        self._rest = self._frames(data) if self._upgraded else data

    def close(self) -> None:
        self._transport.abort()

    def _handshake(self, data: bytes) -> bytes:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return data
        if not data.startswith(b"HTTP/1.1 101"):
            if not self.greeting.done():
                self.greeting.set_exception(UnexpectedReply(data[:500].decode(errors="replace")))
            return b""
        self._upgraded = True
        self._transport.write(_masked(_TEXT, json.dumps(self._hello).encode()))
        return data[end + 4 :]

    def _frames(self, data: bytes) -> bytes:
        """Handles the complete frames and returns what is left."""
        position, size, events = 0, len(data), 0
        while size - position >= 2:
            start, length = position + 2, data[position + 1]
            if length == 126:
                length = (data[start] << 8 | data[start + 1]) if size >= start + 2 else size
                start += 2
            elif length == 127:
                length = int.from_bytes(data[start : start + 8], "big") if size >= start + 8 else size
                start += 8
            if start + length > size:
                break
            if data[position] == _TEXT and self.greeting.done():
                events += 1
                if self._on_event is not None:
                    self._on_event(data[start : start + length])
            else:
                self._other(data[position], data[start : start + length])
            position = start + length
        if events:
            self._tally.add(events)
        return data[position:]

    def _other(self, first: int, payload: bytes) -> None:
        if first == _TEXT:
            self.greeting.set_result(json.loads(payload))
        elif first == _PING:
            self._transport.write(_masked(0x8A, payload))
        elif first == _CLOSE:
            self._code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else None
            self._transport.write(_masked(_CLOSE, payload[:2]))
        else:
            self._tally.fail(UnexpectedReply(f"a frame of kind {first:#x}"))


def _masked(first: int, payload: bytes) -> bytes:
    """A frame as a client must send it; none of ours is longer than 65,535 bytes."""
    mask = os.urandom(4)
    length = len(payload)
    head = bytes((first, 0x80 | length)) if length < 126 else struct.pack("!BBH", first, 0x80 | 126, length)
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


async def subscribe(
    host: str,
    port: int,
    token: str,
    *,
    after: int,
    tally: Tally,
    on_event: Callable[[bytes], None] | None = None,
    subscriptions: dict[str, list[str]] | None = None,
) -> Subscriber:
    """Opens a feed and returns once the hub has greeted it."""
    _, feed = await asyncio.get_running_loop().create_connection(
        lambda: Subscriber(f"/ws?token={token}", after, tally, on_event, subscriptions), host, port
    )
    await feed.greeting
    return feed
