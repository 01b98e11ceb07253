"""People of a mesh with a roster, at a real broker: each connects by a key, and by an invite before it is a member."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import websockets
from msgspec.structs import replace

from parley.core import sealing
from parley.core.clock import SystemClock
from parley.core.roster import Invite, State, apply, entries
from parley.core.roster.authoring import next_entry
from parley.core.roster.heads import Head
from parley.wire.broker import Challenge, ErrorFrame, Features, Negotiate, RosterWelcome
from parley.wire.rosters import RosterHello, roster_hello_bytes
from tests.broker.process import REQUIRED, SECONDS, Peer, Process
from tests.conformance.broker.rostered import texts
from tests.core.roster.town import Town, key_body


def signed_hello(town: Town, mesh_id: str, name: str, challenge: Challenge, /, **changes: Any) -> RosterHello:
    """A hello as the member's daemon, or the bearer of an invite, says it; ``changes`` are made before it signs."""
    seed, invite = town.seeds[name], changes.get("invite")
    values: dict[str, Any] = {
        "mesh_id": mesh_id,
        "fingerprint": town.state.fingerprint,
        "pubkey": sealing.public_key(seed).hex(),
        "signature": "0" * 128,
        "instance_id": "i1",
        "member_id": town.ids.get(name),
        **changes,
    }
    bare = RosterHello(**values)
    said = roster_hello_bytes(nonce=challenge.nonce, broker_id=challenge.broker_id, hello=bare)
    by_invite = None if invite is None else sealing.sign(town.secrets[invite.id], said).hex()
    return replace(bare, signature=sealing.sign(seed, said).hex(), invite_signature=by_invite)


class RosterMesh:
    """Ada's mesh at a broker, and the copy of its roster that all of the tests' people share."""

    def __init__(self, process: Process, slug: str = "red") -> None:
        self.process = process
        self.slug = slug
        self.mesh_id = ""
        self.town = Town(at=SystemClock().now_ms())
        key = httpx.get(f"{process.http}/v1/health", timeout=SECONDS, trust_env=False).json()["key"]
        self.town.do("ada", "broker", entries.NameBroker(key))

    def found(self, token: str | None = None, log: list[bytes] | None = None) -> httpx.Response:
        """Has the broker take the roster."""
        body = {"slug": self.slug, "entries": texts(self.town.log if log is None else log)}
        bearer = self.process.token if token is None else token
        answer = httpx.post(
            f"{self.process.http}/v1/rosters",
            json=body,
            timeout=SECONDS,
            trust_env=False,
            headers={"authorization": f"Bearer {bearer}"},
        )
        if answer.is_success:
            self.mesh_id = answer.json()["mesh_id"]
        return answer

    def hello(self, name: str, challenge: Challenge, **changes: Any) -> RosterHello:
        return signed_hello(self.town, self.mesh_id, name, challenge, **changes)

    def grow(self, *data: bytes) -> None:
        """What the broker has taken."""
        for each in data:
            assert self.town.offer(each) is None

    def removal(self, by: str, name: str) -> tuple[bytes, bytes]:
        """A removal, and the key that is owed for it."""
        town = self.town
        remove = town.entry(by, "remove", town.of(name))
        after = apply(town.state, remove)
        assert isinstance(after, State)
        key = next_entry(after, "key", key_body(after), by=town.ids[by], seed=town.seeds[by], at=after.at)
        return remove, key


class RosterPeer(Peer):
    """A connection, and how it was welcomed."""

    welcome: RosterWelcome

    async def append(self, after: int, *data: bytes) -> dict[str, Any]:
        return await self.request("roster_append", after=after, entries=texts(data))

    async def head(self) -> Head:
        return Head(**(await self.request("roster_read"))["head"])


@asynccontextmanager
async def challenged(process: Process) -> AsyncIterator[tuple[RosterPeer, Challenge]]:
    async with websockets.connect(f"{process.url}/ws", open_timeout=SECONDS, proxy=None) as opened:
        peer = RosterPeer(opened)
        yield peer, await peer.hear(Challenge)


@asynccontextmanager
async def as_member(mesh: RosterMesh, name: str, **changes: Any) -> AsyncIterator[RosterPeer]:
    """The member's connection, ready to send and to get."""
    async with challenged(mesh.process) as (peer, challenge):
        await peer.say(mesh.hello(name, challenge, **changes))
        peer.welcome = await peer.hear(RosterWelcome)
        await peer.say(Negotiate(REQUIRED))
        await peer.hear(Features)
        yield peer


@asynccontextmanager
async def as_joiner(mesh: RosterMesh, name: str, invite: Invite) -> AsyncIterator[RosterPeer]:
    """The connection of somebody who bears an invite."""
    async with challenged(mesh.process) as (peer, challenge):
        await peer.say(mesh.hello(name, challenge, member_id=None, invite=invite))
        peer.welcome = await peer.hear(RosterWelcome)
        yield peer


async def join(mesh: RosterMesh, name: str, invite: Invite) -> None:
    """Makes the bearer of the invite a member."""
    data = mesh.town.joining(name, invite)
    async with as_joiner(mesh, name, invite) as peer:
        answer = await peer.append(mesh.town.state.n, data)
    assert answer["appended"], answer
    mesh.grow(data)
    mesh.town.ids[name] = mesh.town.state.names[name]


async def refused(mesh: RosterMesh, name: str, **changes: Any) -> tuple[str, int]:
    """The code with which a hello is refused, and that which closes the connection."""
    async with challenged(mesh.process) as (peer, challenge):
        await peer.say(mesh.hello(name, challenge, **changes))
        error = await peer.hear(ErrorFrame)
        return error.problem.code, await peer.closed_with()
