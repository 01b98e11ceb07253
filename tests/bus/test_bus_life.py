"""What happens to a bus while it runs: renewal, revocation, and a network that is never at rest."""

import asyncio
import contextlib
import itertools
import random
from collections import Counter

import pytest

from parley.bus import Bus, Caveats, MemoryMeshStore, Message, state
from parley.bus.revocation import NOTHING_REVOKED
from parley.core.bus_errors import BusError, CertificateExpired, ChainInvalid, OtherUser
from tests.bus.agents import ADA, BOB, CAROL, DAY, NOW, STRANGER, USER, chain_of
from tests.bus.world import World, echo, name_of, quiet

HOUR_MS = 3_600_000


async def test_an_agent_whose_certificate_expires_goes_on_with_a_renewed_one(world: World) -> None:
    ada = await world.bus(ADA, chain=chain_of(ADA, Caveats(expires_at_ms=NOW + HOUR_MS)))
    async with echo(world, BOB) as bob:
        assert await ada.request(bob.fingerprint, "echo", b"before") == b"before"
        world.clock.jump(HOUR_MS)
        with pytest.raises(CertificateExpired):
            await ada.request(bob.fingerprint, "echo", b"expired")
        with pytest.raises(CertificateExpired):
            await bob.request(ada.fingerprint, "echo", b"to one that is expired")
        ada.renew(chain_of(ADA, Caveats(expires_at_ms=NOW + DAY)))
        assert await ada.request(bob.fingerprint, "echo", b"after") == b"after"


async def test_a_certificate_is_renewed_only_by_one_that_holds_for_the_same_key_and_user(world: World) -> None:
    ada = await world.bus(ADA)
    for chain, error in (
        (chain_of(BOB), ChainInvalid),
        (chain_of(ADA, issuer=STRANGER), OtherUser),
        (chain_of(ADA, Caveats(expires_at_ms=NOW)), CertificateExpired),
    ):
        with pytest.raises(error):
            ada.renew(chain)


@pytest.mark.parametrize(
    ("chain", "error"),
    [(chain_of(BOB), ChainInvalid), (chain_of(ADA, Caveats(expires_at_ms=NOW)), CertificateExpired)],
)
async def test_a_bus_begins_only_with_a_certificate_that_holds(
    world: World, chain: object, error: type[BusError]
) -> None:
    with pytest.raises(error):
        await world.bus(ADA, chain=chain)  # pyright: ignore[reportArgumentType]
    await world.bus(ADA)


async def test_a_revocation_goes_on_to_peers_that_are_met_later(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    revoked = state(USER, NOTHING_REVOKED, [name_of(CAROL)], next_generation=False, now_ms=NOW)
    await ada.learn([revoked.encode()])
    world.network.sever(ada.fingerprint, bob.fingerprint)
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await bob.connect(ada.fingerprint)
    await quiet()
    assert bob.revocations.revoked == {name_of(CAROL)}


class Town:
    """Three agents that publish to each other over a network that breaks, stalls and heals at random."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.buses: list[Bus] = []
        self.heard: Counter[tuple[bytes, bytes]] = Counter()
        self.promised: set[tuple[bytes, bytes]] = set()
        self._publishing: set[asyncio.Task[None]] = set()
        self._number = 0

    async def settle_in(self, store: type[MemoryMeshStore] = MemoryMeshStore) -> None:
        for seed in (ADA, BOB, CAROL):
            bus = await self.world.bus(seed, store=store(), spool="publish", jitter=self.random.random)
            self.buses.append(bus)
        for bus in self.buses:
            bus.subscribe("news", self._hearer(bus))
        for one in self.buses:
            for other in self.buses:
                if one is not other:
                    await one.connect(other.fingerprint)
        await quiet()

    def _hearer(self, bus: Bus):
        async def hear(message: Message) -> None:
            self.heard[bus.fingerprint, message.body] += 1

        return hear

    async def live(self, turns: int) -> None:
        network = self.world.network
        troubles = (network.sever, network.mend, network.mend, network.hold, network.release, network.release)
        for _ in range(turns):
            one, other = self.random.sample(self.buses, 2)
            if self.random.random() < 0.4:
                self.random.choice(troubles)(one.fingerprint, other.fingerprint)
            else:
                task = asyncio.ensure_future(self._publish(one, other))
                self._publishing.add(task)
                task.add_done_callback(self._publishing.discard)
            await asyncio.sleep(self.random.choice((0, 0, 0.1, 5, 70)))
        for one in self.buses:
            for other in self.buses:
                network.mend(one.fingerprint, other.fingerprint)
                network.release(one.fingerprint, other.fingerprint)
        await asyncio.gather(*self._publishing)
        await asyncio.sleep(1_800)

    async def _publish(self, one: Bus, other: Bus) -> None:
        self._number += 1
        body = b"%d" % self._number
        delivery = await one.publish_to(other.fingerprint, "news", body)
        assert delivery.outcome in ("delivered", "spooled")
        self.promised.add((other.fingerprint, body))


@pytest.mark.parametrize("seed", range(12))
async def test_on_a_network_that_breaks_and_stalls_every_message_is_handled_once(world: World, seed: int) -> None:
    town = Town(world, seed)
    await town.settle_in()
    await town.live(150)
    assert town.heard == Counter(town.promised)
    for bus in town.buses:
        assert (await bus.outbox()).waiting == ()
        assert await bus.inbox() == []
    names = [bus.fingerprint for bus in town.buses]
    assert all(world.network.connections(one, other) <= 1 for one in names for other in names)


class Forgetful(MemoryMeshStore):
    """Knows no message again."""

    def _remember_message(self, peer: bytes, message_id: bytes, now: int) -> None:
        pass


async def test_control_with_stores_that_forget_message_ids_some_are_handled_twice(world: World) -> None:
    town = Town(world, 0)
    await town.settle_in(Forgetful)
    await town.live(150)
    assert set(town.heard) == town.promised
    assert max(town.heard.values()) > 1


class Surviving(MemoryMeshStore):
    """What a file is to a bus that starts again: it is still there."""

    durable = True

    async def close(self) -> None:
        pass


class RestlessTown(Town):
    """The agents are killed and start again, too."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.attempted: set[tuple[bytes, bytes]] = set()
        self.repeated: Counter[tuple[bytes, bytes]] = Counter()
        self._stores = {seed: Surviving() for seed in (ADA, BOB, CAROL)}

    async def settle_in(self, store: type[MemoryMeshStore] = Surviving) -> None:
        for seed in self._stores:
            self.buses.append(await self._start(seed))
        for one, other in itertools.permutations(self.buses, 2):
            await one.connect(other.fingerprint)
        await quiet()

    async def _start(self, seed: bytes) -> Bus:
        bus = await self.world.bus(seed, store=self._stores[seed], jitter=self.random.random)
        bus.subscribe("news", self._hearer(bus))
        return bus

    def _hearer(self, bus: Bus):
        async def hear(message: Message) -> None:
            self.heard[bus.fingerprint, message.body] += 1
            self.repeated[bus.fingerprint, message.body] += message.redelivered
            await asyncio.sleep(self.random.choice((0, 0, 0, 1, 20)))

        return hear

    async def _publish(self, one: Bus, other: Bus) -> None:
        if self.random.random() < 0.1:
            await self._restart(self.random.randrange(len(self.buses)))
            return
        self._number += 1
        body = b"%d" % self._number
        self.attempted.add((other.fingerprint, body))
        with contextlib.suppress(BusError):
            await one.publish_to(other.fingerprint, "news", body)
            self.promised.add((other.fingerprint, body))

    async def _restart(self, number: int) -> None:
        bus, seed = self.buses[number], list(self._stores)[number]
        if bus.is_closed:
            return
        await self.world.crash(bus)
        self.buses[number] = await self._start(seed)


@pytest.mark.parametrize("seed", range(12))
async def test_agents_that_are_killed_lose_nothing_and_repeat_only_what_they_say(world: World, seed: int) -> None:
    town = RestlessTown(world, seed)
    await town.settle_in()
    await town.live(150)
    assert town.promised <= set(town.heard) <= town.attempted
    assert all(count - 1 <= town.repeated[key] for key, count in town.heard.items())
    for bus in town.buses:
        assert [each for each in (await bus.outbox()).waiting if each.wedged is None] == []
        assert await bus.inbox() == []
