"""A member who sends what no honest daemon would, to a real daemon through a real broker: kept, told, survived."""

import base64
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import websockets

from parley.core import sealing
from parley.core.sealing import Context
from parley.daemon.memberships import Membership
from parley.wire.broker import (
    Accepted,
    Challenge,
    Features,
    Hello,
    Negotiate,
    Send,
    Welcome,
    hello_bytes,
    wire_fingerprint,
)
from tests.broker.process import REQUIRED, SECONDS, Peer
from tests.campaign.mesh.proxy import FaultProxy
from tests.campaign.mesh.town import Town

TEXT = "x\0y'; DROP TABLE inbox; --\u202e\x1b[31m\ud7ff"


@asynccontextmanager
async def town() -> AsyncIterator[Town]:
    """``d0`` is honest and runs; ``d1`` and ``d2`` are members, and no process."""
    with tempfile.TemporaryDirectory(prefix="pm-") as name:
        place = Path(name)
        async with (
            FaultProxy(1) as proxy,
            Town(place, str(place / "broker.db"), proxy, daemons=3, meshes=1, seed=1) as made,
        ):
            await made.start("broker")
            await made.start("d0")
            yield made


@asynccontextmanager
async def speaking_as(made: Town, member: Membership) -> AsyncIterator[Peer]:
    async with websockets.connect(f"ws://127.0.0.1:{made.proxy.target}/ws", open_timeout=SECONDS, proxy=None) as socket:
        peer = Peer(socket)
        challenge = await peer.hear(Challenge)
        bare = Hello(member.mesh_id, member.member_id, member.pubkey, "0" * 128, "i1")
        said = hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=bare)
        await peer.say(msgspec.structs.replace(bare, signature=sealing.sign(member.seed_bytes, said).hex()))
        await peer.hear(Welcome)
        await peer.say(Negotiate(REQUIRED))
        await peer.hear(Features)
        yield peer


def frame(client_id: str, to: Membership, body: bytes, **more: Any) -> Send:
    bare = Send(client_id, "dm", to.pubkey, base64.b64encode(body).decode(), "0" * 64, **more)
    return msgspec.structs.replace(bare, fingerprint=wire_fingerprint(bare).hex())


def sealed(text: bytes, sender: Membership, to: Membership, **changes: str) -> bytes:
    context = Context(sender.mesh_id, "dm", to.pubkey, sender.pubkey)._replace(**changes)
    return sealing.seal_direct(text, context, sender_seed=sender.seed_bytes, recipient=bytes.fromhex(to.pubkey))


def inside(text: str) -> bytes:
    return msgspec.json.encode({"body": text, "meta": {}})


Bad = Callable[[Membership, Membership, Membership], bytes]
BAD: dict[str, Bad] = {
    "nothing": lambda mallory, honest, other: b"",
    "noise": lambda mallory, honest, other: b"\xff" * 500,
    "text that was never sealed": lambda mallory, honest, other: inside("hello"),
    "sealed, and not our form": lambda mallory, honest, other: sealed(b"[1, 2", mallory, honest),
    "sealed, and no text": lambda mallory, honest, other: sealed(b'{"body": 1}', mallory, honest),
    "carried over from another mesh": lambda mallory, honest, other: sealed(
        inside("hello"), mallory, honest, mesh_id="mesh_other"
    ),
    "carried over from another conversation": lambda mallory, honest, other: sealed(
        inside("hello"), mallory, honest, reply_to="bm_1"
    ),
    "another member's words": lambda mallory, honest, other: sealed(inside("hello"), other, honest),
}


async def ask(made: Town, path: str) -> Any:
    transport = httpx.AsyncHTTPTransport(uds=str(made.home("d0").socket))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=SECONDS) as client:
        return (await client.get(path)).json()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_cannot_be_opened_is_kept_and_what_comes_after_it_is_read() -> None:
    async with town() as made:
        mesh_id = made.people.mesh_ids[0]
        honest, mallory, other = (made.people.members[mesh_id, name] for name in ("d0", "d1", "d2"))
        async with speaking_as(made, mallory) as peer:
            for number, bad in enumerate(BAD.values()):
                answer = await peer.send(frame(f"bad-{number}", honest, bad(mallory, honest, other)))
                assert isinstance(answer, Accepted)
            good = await peer.send(frame("good", honest, sealed(inside(TEXT), mallory, honest)))
            assert isinstance(good, Accepted)
        assert await made.come_to_rest() == []
        items = {each["client_message_id"]: each for each in (await ask(made, "/v1/inbox"))["items"]}
        assert items["good"]["body"] == TEXT
        assert items["good"]["sender_pubkey"] == mallory.pubkey
        assert {items[f"bad-{number}"]["body"] for number in range(len(BAD))} == {None}
        states = {row[3] for row in made.state().deliveries}
        assert states == {"stored", "undecryptable"}
        assert (await ask(made, "/v1/health"))["ok"] is True
