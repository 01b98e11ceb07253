"""Members that take less than is theirs: nobody waits for them, and they cost the broker no more than agreed."""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from parley.broker.policy import Policy
from parley.broker.rules.members import set_role
from parley.broker.sqlite_store import open_sqlite_store
from parley.core.clock import SystemClock
from parley.wire.broker import Accepted, DeliveryAck, DeliveryAcked, Push
from parley.wire.mesh_http import Joined
from tests.broker.process import SECONDS, Peer, Person, connected
from tests.campaign.mesh.processes import NodeProcess, start_broker
from tests.conformance.broker.circle import make_send
from tests.simulation.population import populate

NAMES = ("alice", "bob", "mallory")
LARGE = random.Random(1).randbytes(60_000)
TALK = 40
PATIENT = Policy(lease_ms=600_000)
"""No lease ends as long as a test lasts, however slow the machine is."""
HASTY = Policy(window=160, lease_ms=1_000)
"""A window of large messages fits into what may wait for one member; leased again and again it does not."""
SMALL_BUFFER = 8_192


class Place:
    """People of one mesh, and the broker that they have now."""

    def __init__(self, folder: Path) -> None:
        self.people: dict[str, Person] = {}
        self.node: NodeProcess | None = None
        self._folder = folder
        with contextlib.closing(open_sqlite_store(folder / "broker.db", SystemClock())) as store:
            population = populate(store, random.Random(1), list(NAMES), 1, blocks=False)
            alice = population.members[population.mesh_ids[0], "alice"]
            store.call(lambda tx: set_role(tx, alice.mesh_id, alice.member_id, "owner"))
        for (_, name), of in population.members.items():
            person = self.people[name] = Person(name)
            person.seed, person.pubkey = of.seed_bytes, of.pubkey
            person.joined = Joined(of.mesh_id, of.slug, of.member_id, name, "member", 1)

    def __getitem__(self, name: str) -> Person:
        return self.people[name]

    @property
    def url(self) -> str:
        assert self.node is not None
        return f"ws://127.0.0.1:{self.node.ready['port']}"

    def serve(self, policy: Policy) -> None:
        """Starts a broker with these numbers, in place of the one before."""
        self.end()
        self.node = start_broker(self._folder / "broker", str(self._folder / "broker.db"), policy=policy)

    def end(self) -> None:
        if self.node is not None:
            self.node.kill()

    async def metric(self, name: str) -> float:
        """A number that the broker tells of itself; 0 as long as it has none."""
        async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client:
            text = (await client.get(f"{self.url.replace('ws', 'http', 1)}/metrics")).text
        lines = [line.rpartition(" ") for line in text.splitlines()]
        return sum(float(value) for key, _, value in lines if key == name)

    async def until(self, name: str, value: float) -> None:
        async with asyncio.timeout(SECONDS):
            while await self.metric(name) != value:
                pass


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.end()


async def test_who_never_acknowledges_gets_a_window_and_holds_nobody_up(place: Place) -> None:
    place.serve(PATIENT)
    window = PATIENT.window
    count = window + TALK
    async with (
        connected(place["mallory"], place.url) as mallory,
        connected(place["alice"], place.url) as alice,
        connected(place["bob"], place.url) as bob,
    ):
        others = asyncio.create_task(_take_all(bob, count))
        for number in range(count):
            assert isinstance(await alice.send(make_send(f"c{number}", "queue", "*")), Accepted)
        assert await others == {f"c{number}" for number in range(count)}
        got = [await mallory.hear(Push) for _ in range(window)]
        assert len({push.delivery_id for push in got}) == window, "a window is not leased twice while it is held"
        await mallory.say(DeliveryAck([DeliveryAcked(push.delivery_id) for push in got]))
        rest = await _take_all(mallory, TALK)
        assert rest | {push.message.client_message_id for push in got} == {f"c{number}" for number in range(count)}


async def test_who_reads_nothing_is_cut_off_without_hurting_anybody_and_finds_everything_later(place: Place) -> None:
    """Neither a full socket nor a close that is never taken may keep a connection, or what waits on it, for ever."""
    place.serve(HASTY)
    sent = {f"l{number}" for number in range(HASTY.window)}
    async with (
        connected(place["alice"], place.url) as alice,
        connected(place["bob"], place.url) as bob,
        connected(place["mallory"], place.url, buffer_bytes=SMALL_BUFFER) as mallory,
    ):
        for name in sorted(sent):
            assert isinstance(await alice.send(make_send(name, "dm", place["mallory"].pubkey, LARGE)), Accepted)
        for number in range(TALK):
            assert isinstance(await alice.send(make_send(f"b{number}", "dm", place["bob"].pubkey)), Accepted)
            # A lease of a second may end before a slow machine has read the word on it: then a delivery comes again.
            while (await bob.take()).message.client_message_id != f"b{number}":
                pass
        await place.until('parley_broker_closed_total{code="1008"}', 1)
        await place.until("parley_broker_connections", 2)
        mallory.socket.transport.abort()
    place.serve(PATIENT)
    async with connected(place["mallory"], place.url) as mallory:
        assert await _take_all(mallory, len(sent)) == sent


async def test_a_place_is_free_again_however_its_connection_ended(place: Place) -> None:
    """Replaced, closed by an admin, thrown out, broken or left in peace: what counts is who is connected now."""
    place.serve(PATIENT)
    ann, bob = place["alice"], place["bob"]
    async with connected(ann, place.url) as admin:
        async with connected(bob, place.url) as first, connected(bob, place.url) as second:
            assert await first.closed_with() == 4003
            await admin.request("kick", member_id=bob.member_id)
            assert await second.closed_with() == 4001
        async with connected(bob, place.url) as third:
            third.socket.transport.abort()
        async with connected(bob, place.url) as fourth:
            await admin.request("ban", member_id=bob.member_id)
            assert await fourth.closed_with() == 4002
        await place.until("parley_broker_connections", 1)
    await place.until("parley_broker_connections", 0)


async def _take_all(peer: Peer, count: int) -> set[str]:
    """So many different messages, whatever comes twice."""
    taken: set[str] = set()
    while len(taken) < count:
        taken.add((await peer.take()).message.client_message_id)
    return taken
