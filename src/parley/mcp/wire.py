"""The wire as the SDK reads and writes it: text lines, on the event loop itself.

A file that is wrapped for an event loop costs a thread and a change of threads for each line that comes, is written and
is flushed; for a call of a tool that is most of what the protocol costs. A pipe, a socket and a terminal can tell when
there is something to read, and when a piece can be written without waiting. What cannot tell, such as a plain file, and
what would have to wait, is left to a thread.
"""

import asyncio
import os
import select
from collections import deque
from typing import Final, Self

CHUNK_BYTES: Final = 65_536
PIECE_BYTES: Final = select.PIPE_BUF
"""So much can be written at once wherever ``poll`` says that writing is possible."""


class Incoming:
    """Lines as they come, until the other side is done. ``anyio.AsyncFile`` as far as the SDK uses it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            self._take(await self._read())
        return self._lines.popleft().decode("utf-8", "replace")

    def _take(self, data: bytes) -> None:
        self._ended = not data
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line + b"\n" for line in whole)
        if self._ended and self._rest:
            self._lines.append(self._rest)

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _set, ready)
        except OSError:  # it cannot tell when there is something
            return await asyncio.to_thread(os.read, self._descriptor, CHUNK_BYTES)
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, CHUNK_BYTES)


class Outgoing:
    """Takes lines; they are on their way when ``flush`` returns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._waiting = b""
        self._turn = asyncio.Lock()

    async def write(self, text: str) -> int:
        self._waiting += text.encode("utf-8", "surrogatepass")
        return len(text)

    async def flush(self) -> None:
        async with self._turn:  # what comes while a thread writes must not end up in the middle of it
            while self._waiting and self._poll.poll(0):
                written = os.write(self._descriptor, self._waiting[:PIECE_BYTES])
                self._waiting = self._waiting[written:]
            rest, self._waiting = self._waiting, b""
            if rest:  # whoever reads is slow; nothing else is to wait for that
                await asyncio.to_thread(self._write_all, rest)

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
