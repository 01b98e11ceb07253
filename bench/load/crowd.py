"""A thousand members of one mesh, each on a socket of its own, all in this process.

A peer is the product's own machine, ``MeshLoop``, in a shell that keeps nothing: what is pushed is acknowledged at
once. So hellos, heartbeats, acknowledgements and the waits before a new try are a daemon's, and disks are not in the
way. The broker is a process of its own and can be killed and started again at its address.
"""

import asyncio
import base64
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import broadcast as write_to
from websockets.exceptions import WebSocketException

from bench.load.http import HttpPeer, check_success, json_body, request
from bench.load.peer import UnexpectedReply
from bench.load.ports import lasting_port
from bench.load.process import Process, ServerProcess
from parley.core import sealing
from parley.core.clock import iso
from parley.daemon.effects import Connect, Disconnect, Effect, End, Reply, Store, Take, Transmit
from parley.daemon.instant import Instant
from parley.daemon.link import LinkSettings, Member
from parley.daemon.mesh_loop import MeshLoop
from parley.daemon.outbox.sending import Due
from parley.wire.broker import DeliveryAcked, Push, Send, decode_from_broker, encode_frame, wire_fingerprint
from parley.wire.invites import Invite, decode_invite, encode_invite, signed_invite
from parley.wire.mesh_http import JoinMesh, join_bytes

TICK_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.01
DEADLINE_SECONDS: Final = 240.0
_HOUR_MS: Final = 3_600_000
_UNSIGNED: Final = "0" * 128


class CrowdPeer:
    """One member. ``on_push`` is told of each delivery when it has come."""

    def __init__(self, member: Member, url: str, on_push: Callable[[Push], None]) -> None:
        self.machine = MeshLoop(member, LinkSettings(), random.random)
        self._url = url
        self._on_push = on_push
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}

    @property
    def ready(self) -> bool:
        return self.machine.ready

    def start(self) -> None:
        self._do(self.machine.start(_now()))

    def tick(self, now: Instant) -> None:
        deadline = self.machine.deadline
        if deadline is not None and now.at >= deadline:
            self._do(self.machine.on_timer(now))

    def transmit(self, frame: Send) -> None:
        self._do([Transmit(frame)])

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        token, effects = self.machine.ask(method, params, _now())
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        self._do(effects)
        return await answer

    async def stop(self) -> None:
        self.machine.stop(_now())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connect():
                    self._task = asyncio.get_running_loop().create_task(self._live())
                case Transmit() if self._socket is not None:
                    write_to((self._socket,), encode_frame(effect.frame).decode())
                case Disconnect():
                    self._socket = None
                case Take():
                    self._do(self.machine.on_taken(Due([], None, []), _now()))
                case Store():
                    for push in effect.pushes:
                        self._on_push(push)
                    acked = [DeliveryAcked(push.delivery_id) for push in effect.pushes]
                    self._do(self.machine.on_stored(acked, _now()))
                case Reply() if effect.token in self._answers:
                    self._answers.pop(effect.token).set_result(effect.result)
                case End():
                    raise UnexpectedReply(f"the broker sent a member away: {effect.error}")
                case _:
                    pass

    async def _live(self) -> None:
        code, reason = None, "no connection"
        try:
            async with connect(self._url, compression=None, ping_interval=None, proxy=None, close_timeout=1) as socket:
                self._socket = socket
                self._do(self.machine.on_connected(_now()))
                async for data in socket:
                    self._do(self.machine.on_frame(decode_from_broker(data), _now()))
                code, reason = socket.close_code, socket.close_reason or ""
        except (OSError, WebSocketException, TimeoutError, EOFError) as error:
            reason = str(error)
        self._socket = None
        self._do(self.machine.on_closed(code, reason, _now()))


class Crowd:
    """The broker and its peers. ``arrivals`` are the moments at which deliveries came, until they are taken."""

    def __init__(self, folder: Path, count: int) -> None:
        self.broker: Process
        self.peers: list[CrowdPeer] = []
        self.arrivals: list[float] = []
        self._folder = folder
        self._count = count
        self._port = lasting_port()
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True)
        self.start_broker()
        try:
            await self._gather()
        except BaseException:
            self.broker.stop()
            raise
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        await asyncio.gather(*(peer.stop() for peer in self.peers))
        await asyncio.to_thread(self.broker.stop)

    def start_broker(self) -> None:
        """At the address that it always had."""
        command = [sys.executable, "-m", "parley", "broker", "up", "--folder", str(self._folder / "broker")]
        command += ["--port", str(self._port), "--open-creation", "--json"]
        self.broker = ServerProcess(command, ready='"url"', folder=self._folder)

    async def all_ready(self) -> float:
        """Waits until everybody is connected; how many seconds it took."""
        return await until(lambda: all(peer.ready for peer in self.peers), "not everybody is connected")

    async def all_lost(self) -> float:
        """Waits until everybody knows that the broker is gone."""
        return await until(lambda: not any(peer.ready for peer in self.peers), "somebody is still connected")

    async def all_arrived(self, count: int) -> list[float]:
        """Waits for so many deliveries; when each came."""
        await until(lambda: len(self.arrivals) >= count, f"less than {count} deliveries came")
        arrived, self.arrivals = self.arrivals, []
        return arrived

    async def _gather(self) -> None:
        """The first to join is the owner, who lets all the others in."""
        http = (await asyncio.get_running_loop().create_connection(HttpPeer, "127.0.0.1", self._port))[1]
        created = await _post(http, "/v1/meshes", {"slug": "crowd", "name": "crowd"})
        owner, seed = await self._join(http, created["invite"], "p0")
        owner.start()
        await until(lambda: owner.ready, "the owner is not connected")
        await owner.ask("create_invite", {"invite": (text := self._invite(created["invite"], seed))})
        for number in range(1, self._count):
            await self._join(http, text, f"p{number}")
        http.close()

    async def _join(self, http: HttpPeer, invite: str, name: str) -> tuple[CrowdPeer, bytes]:
        seed, shown = sealing.new_key(), encode_invite(decode_invite(invite)[0])
        asked = JoinMesh(shown, sealing.public_key(seed).hex(), name, _UNSIGNED)
        asked = msgspec.structs.replace(asked, signature=sealing.sign(seed, join_bytes(asked)).hex())
        joined = await _post(http, "/v1/join", msgspec.to_builtins(asked))

        def sign(data: bytes) -> bytes:
            return sealing.sign(seed, data)

        ids = (joined["mesh_id"], joined["mesh_slug"], joined["member_id"], asked.pubkey)
        url = f"ws://127.0.0.1:{self._port}/ws"
        self.peers.append(CrowdPeer(Member(*ids, f"i-{name}", "", "bench", sign), url, self._on_push))
        return self.peers[-1], seed

    def _invite(self, first: str, seed: bytes) -> str:
        old = decode_invite(first)[0]
        invite = Invite(
            invite_id="inv_crowd",
            mesh_id=old.mesh_id,
            mesh_slug=old.mesh_slug,
            broker_url=old.broker_url,
            role="member",
            issuer=sealing.public_key(seed).hex(),
            expires_at=iso(round(time.time() * 1000) + _HOUR_MS),
            uses_max=self._count,
            key_epoch=1,
        )
        return encode_invite(signed_invite(invite, seed))

    def _on_push(self, _: Push) -> None:
        self.arrivals.append(time.perf_counter())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = _now()
            for peer in self.peers:
                peer.tick(now)


async def until(condition: Callable[[], bool], otherwise: str) -> float:
    """Waits for the condition; how many seconds it took."""
    start = time.perf_counter()
    while not condition():
        if time.perf_counter() - start > DEADLINE_SECONDS:
            raise UnexpectedReply(otherwise)
        await asyncio.sleep(LOOK_SECONDS)
    return time.perf_counter() - start


def broadcast(name: str, body: bytes) -> Send:
    """A message to everybody."""
    bare = Send(name, "queue", "*", base64.b64encode(body).decode(), "0" * 64, key_epoch=1)
    return msgspec.structs.replace(bare, fingerprint=wire_fingerprint(bare).hex())


async def _post(http: HttpPeer, path: str, body: Any) -> Any:
    reply = await http.call(request("POST", path, "", body))
    check_success(reply)
    return json_body(reply)


def _now() -> Instant:
    return Instant(round(time.time() * 1000), time.monotonic())
