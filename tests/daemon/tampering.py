"""A broker under the tests' control: a real one, with somebody between it and a daemon who changes what it says.

Whoever has a broker's database has the key by which it signs heads, so this one can sign them, too.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import asdict, replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from parley.core.roster.heads import sign_head
from parley.daemon.memberships import Memberships
from parley.wire.daemon_home import DaemonHome
from tests.daemon.served_daemon import MakeServed, ServedDaemon

Frame = dict[str, Any]
Meddler = Callable[[str, Frame], list[Frame]]
"""What to say instead of a frame; named is the method that an answer is the answer to, else the frame's type."""
FRAME_BYTES_MAX = 4 * 1024 * 1024
LOOP_TURNS = 3
"""After so many turns of the loop, a transport that was aborted is closed."""


def honest(name: str, frame: Frame) -> list[Frame]:
    return [frame]


class TamperedBroker:
    """Between a broker and those who were sent here."""

    def __init__(self, target: str, folder: Path) -> None:
        self.url = ""
        self.meddle: Meddler = honest
        self.heard: list[Frame] = []
        """What daemons have said."""
        self.pushed: list[Frame] = []
        """What the broker has delivered."""
        self._target = target
        self._folder = folder
        self._lines: dict[ServerConnection, ClientConnection] = {}
        self._transports: set[asyncio.Transport] = set()

    async def say(self, frame: Frame) -> None:
        """Says something that the broker did not."""
        for near in self._lines:
            await near.send(json.dumps(frame))

    def head(self, fingerprint: str, n: int, digest: str) -> Frame:
        """A head, as the broker signs it."""
        with closing(apsw.Connection(str(self._folder / "broker.db"), flags=apsw.SQLITE_OPEN_READONLY)) as database:
            ((seed,),) = database.execute("SELECT value FROM meta WHERE key = 'signing_seed'").fetchall()
        return asdict(sign_head(n, digest, fingerprint=fingerprint, seed=bytes.fromhex(str(seed))))

    async def serve(self, near: ServerConnection) -> None:
        methods: dict[int, str] = {}
        async with connect(f"{self._target}/ws", compression=None, ping_interval=None, max_size=FRAME_BYTES_MAX) as far:
            self._lines[near] = far
            self._transports |= {near.transport, far.transport}
            ways = [self._pass_on(near, far, methods), self._pass_back(near, far, methods)]
            await asyncio.gather(*ways, return_exceptions=True)
            del self._lines[near]

    async def end(self) -> None:
        """Leaves no connection behind."""
        for transport in self._transports:
            transport.abort()
        for _ in range(LOOP_TURNS):
            await asyncio.sleep(0)

    async def _pass_on(self, near: ServerConnection, far: ClientConnection, methods: dict[int, str]) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in near:
                frame: Frame = json.loads(data)
                self.heard.append(frame)
                if frame["type"] == "request":
                    methods[frame["id"]] = frame["method"]
                await far.send(data)
        await far.close()

    async def _pass_back(self, near: ServerConnection, far: ClientConnection, methods: dict[int, str]) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in far:
                frame: Frame = json.loads(data)
                name = methods.get(frame.get("id", -1), "") if frame["type"] == "answer" else frame["type"]
                if name == "push":
                    self.pushed.append(frame)
                for each in self.meddle(name, frame):
                    await near.send(json.dumps(each))
        await near.close(far.close_code or 1000, far.close_reason or "")


@asynccontextmanager
async def tampered(target: str, folder: Path) -> AsyncIterator[TamperedBroker]:
    made = TamperedBroker(target, folder)
    async with serve(
        made.serve, "127.0.0.1", 0, compression=None, ping_interval=None, max_size=FRAME_BYTES_MAX
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        made.url = f"ws://127.0.0.1:{port}"
        try:
            yield made
        finally:
            await made.end()


async def sent_to(broker: TamperedBroker, served: ServedDaemon, make_served: MakeServed) -> ServedDaemon:
    """The same daemon, connected to that broker from now on."""
    name = served.home.root.name
    await served.close()
    memberships = Memberships(DaemonHome(served.home.root).memberships)
    memberships.load()
    (membership,) = memberships.all()
    memberships.put(replace(membership, broker_url=broker.url))
    again = await make_served(name=name, empty=True)
    await again.until(lambda: again.daemon.mesh(None).runner.machine.ready)
    return again
