"""The other end of a daemon's connection, which says what a test wants it to: real frames over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import websockets
from msgspec.structs import replace

from parley.daemon.memberships import Membership
from parley.wire.broker import (
    Accepted,
    Answer,
    DeliveryAck,
    Features,
    FromBroker,
    FromDaemon,
    Hello,
    Negotiate,
    Ping,
    Pong,
    Push,
    Request,
    Send,
    decode_from_daemon,
    encode_frame,
)
from tests.daemon.machines import CHALLENGE, FEATURES, WELCOME
from tests.daemon.served_daemon import MakeServed, ServedDaemon, member

F = TypeVar("F")
SECONDS = 60


class Line:
    """One connection of the daemon. What it asks is answered with nothing, and what it says is kept to be heard."""

    def __init__(self, socket: websockets.ServerConnection) -> None:
        self.socket = socket
        self._said: asyncio.Queue[FromDaemon] = asyncio.Queue()

    async def live(self) -> None:
        """Until the connection ends."""
        async for data in self.socket:
            frame = decode_from_daemon(data)
            match frame:
                case Request():
                    await self.say(Answer(frame.id, {"members": [], "keys": [], "key_epoch": 1, "wanted": []}))
                case Ping():
                    await self.say(Pong(frame.id))
                case _:
                    self._said.put_nowait(frame)

    async def say(self, frame: FromBroker) -> None:
        await self.socket.send(encode_frame(frame).decode())

    async def hear(self, kind: type[F]) -> F:
        """The next frame of this kind."""
        async with asyncio.timeout(SECONDS):
            while True:
                frame = await self._said.get()
                if isinstance(frame, kind):
                    return frame

    async def accept(self, **changes: Any) -> Send:
        """Takes the next message, as new unless it is said otherwise."""
        send = await self.hear(Send)
        await self.say(replace(Accepted(send.client_message_id, 201, "bm_1", 1, False), **changes))
        return send

    async def deliver(self, push: Push) -> None:
        """Has the daemon take a delivery."""
        await self.say(push)
        await self.hear(DeliveryAck)


class ScriptedBroker:
    """Greets whoever comes, and hands its connections to the test."""

    def __init__(self, membership: Membership, features: Features) -> None:
        self._membership = membership
        self._features = features
        self._lines: asyncio.Queue[Line] = asyncio.Queue()

    async def serve(self, socket: websockets.ServerConnection) -> None:
        line = Line(socket)
        living = asyncio.create_task(line.live())
        await line.say(CHALLENGE)
        await line.hear(Hello)
        of = self._membership
        await line.say(replace(WELCOME, mesh_id=of.mesh_id, mesh_slug=of.slug, member_id=of.member_id))
        await line.hear(Negotiate)
        await line.say(self._features)
        self._lines.put_nowait(line)
        await asyncio.gather(living, return_exceptions=True)

    async def connected(self) -> Line:
        """The next connection that was greeted."""
        async with asyncio.timeout(SECONDS):
            return await self._lines.get()


@asynccontextmanager
async def scripted_broker(
    make_served: MakeServed, features: Features = FEATURES
) -> AsyncIterator[tuple[ScriptedBroker, ServedDaemon]]:
    """A broker, and a daemon that is a member of its one mesh."""
    served = await make_served(empty=True)
    of = member("team")
    broker = ScriptedBroker(of, features)
    async with websockets.serve(broker.serve, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        served.daemon.memberships.put(replace(of, broker_url=f"ws://127.0.0.1:{port}"))
        assert (await served.unix.post("/v1/reload")).json()["attached"] == ["team"]
        yield broker, served
        await served.close()
