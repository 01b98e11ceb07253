"""A network between daemons and a broker that can be made bad. Its address stays, wherever the broker is.

It passes WebSocket frames on. A connection is known by the path that it asks for, ``daemon.mesh``, and trouble is made
for a daemon, for a mesh, or for one mesh of one daemon. Frames can be delayed and doubled; connections can be cut, kept
open in silence for both ends, as by a router that forgot them, or not let in at all.
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, WebSocketException

FRAME_BYTES_MAX = 4 * 1024 * 1024
CLOSE_SECONDS = 0.05
LOOP_TURNS = 3
"""After so many turns of the loop, a transport that was aborted is closed."""
_SPARED = tuple(f'{{"type":"{name}"' for name in ("challenge", "hello", "welcome", "negotiate", "features"))


@dataclass
class Trouble:
    """What happens to frames on their way."""

    delay_seconds: float = 0.0
    doubling: float = 0.0


CALM = Trouble()


@dataclass
class _Link:
    """One connection through the proxy."""

    name: str
    near: ServerConnection
    far: ClientConnection
    silent: bool = False
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)


class FaultProxy:
    """Use as ``async with``. ``target`` is the broker's port now; None while there is none."""

    def __init__(self, seed: int) -> None:
        self.target: int | None = None
        self.troubles: dict[str, Trouble] = {}
        self.shut: set[str] = set()
        """Daemons and meshes that are not let in."""
        self.frames = 0
        self.cuts = 0
        self._rng = random.Random(seed)
        self._links: list[_Link] = []
        self._transports: set[asyncio.Transport] = set()
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._pass, "127.0.0.1", 0, compression=None, ping_interval=None, max_size=FRAME_BYTES_MAX,
            close_timeout=CLOSE_SECONDS,
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self.cut_all()
        self._server.close(close_connections=True)
        await self._server.wait_closed()
        for transport in self._transports:  # one that waits for a reader who is gone would stay
            transport.abort()
        for _turn in range(LOOP_TURNS):
            await asyncio.sleep(0)

    def url(self, name: str) -> str:
        """The broker's address for this connection."""
        assert self._server is not None
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"ws://127.0.0.1:{port}/{name}"

    def cut_all(self, name: str | None = None) -> None:
        """Ends connections at once, without a word."""
        for link in self._of(name):
            self.cuts += 1
            link.near.transport.abort()
            link.far.transport.abort()

    def silence(self, name: str | None = None) -> None:
        """Keeps connections open and passes nothing more on."""
        for link in self._of(name):
            self.cuts += 1
            link.silent = True

    def _of(self, name: str | None) -> list[_Link]:
        return [link for link in self._links if name is None or name in _names(link)]

    def _trouble(self, link: _Link) -> Trouble:
        return next((self.troubles[name] for name in _names(link) if name in self.troubles), CALM)

    async def _pass(self, near: ServerConnection) -> None:
        assert near.request is not None
        name = near.request.path.strip("/").split("/")[0]
        self._transports.add(near.transport)
        if self.target is None or self.shut.intersection(name.split(".")):
            near.transport.abort()
            return
        with contextlib.suppress(OSError, WebSocketException, TimeoutError):
            async with connect(
                f"ws://127.0.0.1:{self.target}/ws",
                compression=None,
                ping_interval=None,
                max_size=FRAME_BYTES_MAX,
                proxy=None,
                close_timeout=CLOSE_SECONDS,
            ) as far:
                self._transports.add(far.transport)
                if self.shut.intersection(name.split(".")):  # since it knocked
                    near.transport.abort()
                    return
                link = _Link(name, near, far)
                self._links.append(link)
                try:
                    await self._carry(link)
                finally:
                    self._links.remove(link)

    async def _carry(self, link: _Link) -> None:
        ways = [(link.near, link.far), (link.far, link.near)]
        link.tasks = [asyncio.create_task(self._one_way(link, source, sink)) for source, sink in ways]
        await asyncio.wait(link.tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in link.tasks:
            task.cancel()
        await asyncio.gather(*link.tasks, return_exceptions=True)

    async def _one_way(
        self, link: _Link, source: ServerConnection | ClientConnection, sink: ServerConnection | ClientConnection
    ) -> None:
        try:
            async for data in source:
                self.frames += 1
                trouble = self._trouble(link)
                if trouble.delay_seconds:
                    await asyncio.sleep(trouble.delay_seconds * self._rng.random())
                if link.silent:
                    continue
                await sink.send(data)
                if trouble.doubling and self._rng.random() < trouble.doubling and not _is_spared(data):
                    await sink.send(data)
        except ConnectionClosed:
            pass
        if not link.silent:
            with contextlib.suppress(ConnectionClosed, OSError):
                await sink.close(source.close_code or 1001, source.close_reason or "")


def _names(link: _Link) -> list[str]:
    return [link.name, *link.name.split(".")]


def _is_spared(data: str | bytes) -> bool:
    return (data if isinstance(data, str) else data.decode()).startswith(_SPARED)
