"""A broker and daemons, each a process of its own, and meshes that all of the daemons are members of.

A daemon is one member of each mesh, so ten daemons in ten meshes are a hundred peers.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from bench.load.http import HttpPeer, check_success, json_body, request
from bench.load.peer import UnexpectedReply
from bench.load.ports import lasting_port
from bench.load.process import Process, ServerProcess
from parley.app.services import CI_VARIABLES
from parley.broker.options import FILE
from parley.client.daemon import DaemonClient
from parley.core.daemon_errors import DaemonNotRunning, MeshKeyMissing, MeshUnreachable
from parley.wire.daemon_answers import Peer
from parley.wire.daemon_home import DaemonHome

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1
_DATA = b"data: "


class Mesh:
    """The processes. ``members[m][d]`` is the public key of daemon ``d`` in mesh ``m``."""

    def __init__(
        self,
        folder: Path,
        store: str | None,
        daemons: int,
        meshes: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``environment`` is what its processes find in theirs, beside what they need."""
        self.folder = folder
        self._environment = environment or {}
        self._store = ["--store", store] if store else []
        self._counts = (daemons, meshes)
        self._stack = ExitStack()
        self.broker: Process
        self.daemons: list[Process] = []
        self.members: list[list[str]] = []

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._stack.close)

    async def connect(self, daemon: int) -> HttpPeer:
        """A connection to a daemon's socket."""
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_unix_connection(HttpPeer, str(self._home(daemon).socket))
        return peer

    async def follow(self, daemon: int, on_arrival: Callable[[bytes], None]) -> "Follower":
        """Calls with the client's id of each message that is in the daemon's inbox from now on."""
        loop = asyncio.get_running_loop()
        _, follower = await loop.create_unix_connection(lambda: Follower(on_arrival), str(self._home(daemon).socket))
        await follower.connected
        return follower

    def cpu_seconds(self) -> tuple[float, float]:
        """CPU time of the broker, and of all daemons."""
        return self.broker.cpu_seconds(), sum(each.cpu_seconds() for each in self.daemons)

    def bytes_on_disk(self) -> dict[str, int]:
        """Of the databases without their logs, which are used again and again: the broker's, and all daemons'."""
        homes = [self._home(number) for number in range(len(self.daemons))]
        files = {"broker": [self.folder / "broker" / FILE]}
        files |= {"outbox": [home.outbox for home in homes], "inbox": [home.inbox for home in homes]}
        return {name: sum(_size(each) for each in paths) for name, paths in files.items()}

    def _home(self, daemon: int) -> DaemonHome:
        return DaemonHome(self.folder / f"d{daemon}")

    async def _start(self) -> None:
        port, (daemons, meshes) = lasting_port(), self._counts
        self.folder.mkdir(parents=True)
        arguments = ["broker", "up", "--folder", str(self.folder / "broker"), "--port", str(port), "--open-creation"]
        self.broker = self._serve([*arguments, *self._store, "--json"], '"url"', {})
        for number in range(daemons):
            home = self._home(number).root
            home.mkdir(mode=0o700)
            environment = {**dict.fromkeys(CI_VARIABLES, ""), "PARLEY_DAEMON_HOME": str(home)}
            arguments = ["daemon", "up", "--foreground", "--no-tcp", "--json"]
            self.daemons.append(self._serve(arguments, '"pid"', environment))
        for number in range(meshes):
            await self._make_mesh(f"mesh-{number}", port)
        await asyncio.to_thread(self._learn_members)

    def _serve(self, arguments: list[str], ready: str, environment: dict[str, str]) -> Process:
        command = [sys.executable, "-m", "parley", *arguments]
        return self._stack.enter_context(
            ServerProcess(command, ready=ready, folder=self.folder, environment={**self._environment, **environment})
        )

    async def _make_mesh(self, slug: str, port: int) -> None:
        _, peer = await asyncio.get_running_loop().create_connection(HttpPeer, "127.0.0.1", port)
        reply = await peer.call(request("POST", "/v1/meshes", "", {"slug": slug, "name": slug}))
        check_success(reply)
        peer.close()
        await asyncio.to_thread(self._join_all, slug, json_body(reply)["invite"])

    def _join_all(self, slug: str, invite: str) -> None:
        """The first daemon joins as the owner, makes the mesh's key, and invites the others."""
        self._join(0, invite)
        with DaemonClient(self._home(0)) as owner:
            invite = _patiently(lambda: owner.invite(mesh=slug, uses=len(self.daemons), hours=1.0)).invite
        for number in range(1, len(self.daemons)):
            self._join(number, invite)

    def _join(self, number: int, invite: str) -> None:
        with DaemonClient(self._home(number)) as client:
            _patiently(lambda: client.join(invite, f"d{number}"))

    def _learn_members(self) -> None:
        self.members = [self._members_of(f"mesh-{number}") for number in range(self._counts[1])]

    def _members_of(self, slug: str) -> list[str]:
        """Waits until everybody is connected, too: a peer that is not gets nothing yet."""
        with DaemonClient(self._home(0)) as client:
            found = _patiently(lambda: _all_here(client.peers(slug).peers, len(self.daemons)))
        names = {each.display_name: each.pubkey for each in found}
        return [names[f"d{number}"] for number in range(len(self.daemons))]


class _Arrived(msgspec.Struct):
    client_message_id: str


_arrived = msgspec.json.Decoder(_Arrived).decode


class Follower(asyncio.Protocol):
    """A daemon's events, as a stream on a raw socket; only the ids of messages are looked at."""

    def __init__(self, on_arrival: Callable[[bytes], None]) -> None:
        self.connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_arrival = on_arrival
        self._rest = b""
        self._is_message = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(request("GET", "/v1/events", ""))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b": connected") and not self.connected.done():
                self.connected.set_result(None)
            elif line.startswith(b"event: "):
                self._is_message = line.rstrip() == b"event: message"
            elif line.startswith(_DATA) and self._is_message:
                self._on_arrival(_arrived(line[len(_DATA) :]).client_message_id.encode())

    def close(self) -> None:
        self._transport.close()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _all_here(peers: list[Peer], count: int) -> list[Peer]:
    if sum(each.connected for each in peers) < count:
        raise MeshUnreachable("not everybody is here")
    return peers


def _patiently(ask: Callable[[], Any]) -> Any:
    """Asks again while a daemon is not there yet or has no mesh key yet."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except (MeshUnreachable, MeshKeyMissing, DaemonNotRunning) as error:
            if time.monotonic() > end:
                raise UnexpectedReply(f"the mesh does not come up: {error}") from error
            time.sleep(LOOK_SECONDS)
