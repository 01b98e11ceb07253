"""A broker as a user starts it, and members that talk to it over real sockets."""

import hashlib
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import websockets

from parley.core import sealing
from parley.core.clock import SystemClock, iso
from parley.wire.broker import (
    Accepted,
    Answer,
    Challenge,
    DeliveryAck,
    DeliveryAcked,
    Features,
    FromBroker,
    FromDaemon,
    Hello,
    Negotiate,
    Push,
    RefusedSend,
    Request,
    Send,
    Welcome,
    decode_from_broker,
    encode_frame,
    hello_bytes,
)
from parley.wire.invites import Invite, Role, decode_invite, encode_invite, signed_invite
from parley.wire.mesh_http import Joined, JoinMesh, join_bytes

F = TypeVar("F")
REQUIRED = ["client_message_id_dedupe", "concurrent_connection_policy"]
SECONDS = 60
"""How long anything may take before a test gives it up."""


class Process:
    """A broker that serves."""

    def __init__(self, popen: "subprocess.Popen[str]", report: dict[str, Any], folder: Path) -> None:
        self.popen = popen
        self.report = report
        self.folder = folder

    @property
    def url(self) -> str:
        return self.report["url"]

    @property
    def http(self) -> str:
        return self.url.replace("ws", "http", 1)

    @property
    def token(self) -> str:
        return (self.folder / "creation-token").read_text().strip()

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(SECONDS)

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(SECONDS)


@contextmanager
def broker(folder: Path, *options: str, port: int = 0, before: str = "") -> Iterator[Process]:
    """Starts a broker and ends it. Raises with its words when it does not start. ``before`` is Python to run first."""
    program = ["-P", "-m", "parley"]
    if before:
        program = ["-P", "-c", f"{before}\nimport runpy; runpy.run_module('parley', run_name='__main__')"]
    argv = [sys.executable, *program, "broker", "up", "--json", "--folder", str(folder)]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("a") as errors:
        popen = subprocess.Popen(
            [*argv, "--port", str(port), *options], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert popen.stdout is not None
    try:
        text = ""
        while not text.endswith("}\n"):
            line = popen.stdout.readline()
            if not line:
                raise RuntimeError(f"the broker ended with {popen.wait()}: {log.read_text()}")
            text += line
        yield Process(popen, json.loads(text), folder)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(SECONDS)
        popen.stdout.close()


class Person:
    """Somebody with a key, and maybe a membership."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seed = hashlib.sha256(name.encode()).digest()
        self.pubkey = sealing.public_key(self.seed).hex()
        self.joined: Joined | None = None

    @property
    def member_id(self) -> str:
        assert self.joined is not None
        return self.joined.member_id

    def asks_to_join(self, invite: str) -> JoinMesh:
        bare = JoinMesh(invite, self.pubkey, self.name, "0" * 128)
        return msgspec.structs.replace(bare, signature=sealing.sign(self.seed, join_bytes(bare)).hex())

    async def join(self, http: str, invite: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
            answer = await client.post(f"{http}/v1/join", content=msgspec.json.encode(self.asks_to_join(invite)))
        if answer.is_success:
            self.joined = msgspec.json.decode(answer.content, type=Joined)
        return answer

    def invites(self, role: Role = "member", uses: int = 1) -> str:
        """An invite that this member signs; the broker has to be told of it."""
        assert self.joined is not None
        invite = Invite(
            invite_id=f"inv_{self.name}_{role}_{uses}",
            mesh_id=self.joined.mesh_id,
            mesh_slug=self.joined.mesh_slug,
            broker_url="ws://127.0.0.1",
            role=role,
            issuer=self.pubkey,
            expires_at=iso(SystemClock().now_ms() + 3_600_000),
            uses_max=uses,
            key_epoch=1,
        )
        return encode_invite(signed_invite(invite, self.seed))


class Peer:
    """A member's connection."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket
        self.heard: list[FromBroker] = []
        self._requests = 0

    async def say(self, frame: FromDaemon) -> None:
        await self.socket.send(encode_frame(frame).decode())

    async def hear(self, kind: type[F]) -> F:
        """The next frame of this kind; others before it are kept in ``heard``."""
        while True:
            frame = decode_from_broker(await self.socket.recv())
            self.heard.append(frame)
            if isinstance(frame, kind):
                return frame

    async def send(self, send: Send) -> Accepted | RefusedSend:
        await self.say(send)
        return await self.hear((Accepted, RefusedSend))  # type: ignore[arg-type]

    async def take(self) -> Push:
        """The next delivery, acknowledged."""
        push = await self.hear(Push)
        await self.say(DeliveryAck([DeliveryAcked(push.delivery_id)]))
        return push

    async def request(self, method: str, **params: Any) -> Any:
        self._requests += 1
        await self.say(Request(self._requests, method, params))
        answer = await self.hear(Answer)
        assert answer.problem is None, answer.problem
        return answer.result

    async def closed_with(self) -> int:
        """Waits for the broker to close the connection."""
        try:
            while True:
                self.heard.append(decode_from_broker(await self.socket.recv()))
        except websockets.ConnectionClosed as closed:
            return 0 if closed.rcvd is None else closed.rcvd.code


@asynccontextmanager
async def connected(
    person: Person,
    url: str,
    instance: str = "i1",
    ssl_context: ssl.SSLContext | None = None,
    buffer_bytes: int | None = None,
) -> AsyncIterator[Peer]:
    """The person's connection, ready to send and to get.

    With ``buffer_bytes`` it takes in little more than that without being read, and never gives the broker up by itself.
    Without, it takes in whatever comes: a client whose queue is full does not even hear that the broker says goodbye.
    """
    assert person.joined is not None
    options: dict[str, Any] = {"ssl": ssl_context, "open_timeout": SECONDS, "proxy": None}
    if buffer_bytes is None:
        options |= {"max_queue": None}
    else:
        options |= {"sock": _narrow_socket(url, buffer_bytes), "ping_interval": None}
    async with websockets.connect(f"{url}/ws", **options) as opened:
        peer = Peer(opened)
        challenge = await peer.hear(Challenge)
        values: dict[str, Any] = {
            "mesh_id": person.joined.mesh_id,
            "member_id": person.member_id,
            "pubkey": person.pubkey,
            "signature": "0" * 128,
            "instance_id": instance,
        }
        said = hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=Hello(**values))
        await peer.say(Hello(**{**values, "signature": sealing.sign(person.seed, said).hex()}))
        await peer.hear(Welcome)
        await peer.say(Negotiate(REQUIRED))
        await peer.hear(Features)
        yield peer


def _narrow_socket(url: str, buffer_bytes: int) -> socket.socket:
    address = urlsplit(url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    made.connect((address.hostname, address.port))
    made.setblocking(False)
    return made


async def circle(process: Process, *names: str) -> list[Person]:
    """The first is the owner by the broker's own invite, the others come by the owner's."""
    owner, *others = (Person(name) for name in names)
    answer = await owner.join(process.http, process.report["owner_invite"])
    assert answer.status_code == 201, answer.text
    invite = owner.invites(uses=10)
    async with connected(owner, process.url) as peer:
        await peer.request("create_invite", invite=invite)
    for other in others:
        assert (await other.join(process.http, invite)).status_code == 201
    assert decode_invite(invite)[1] == b""
    return [owner, *others]
