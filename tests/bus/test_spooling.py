"""What waits for peers that are away: kept, sealed, sent in order, wedged, expired, and always told of."""

import asyncio

import pytest

from parley.bus import Bounds, Bus, MemoryMeshStore, Message, StoreBounds, state
from parley.bus.link_frames import Refusal, encode_frame
from parley.bus.revocation import NOTHING_REVOKED
from parley.bus.transport import Channel
from parley.core.bus_errors import OutboxFull, PeerUnreachable
from parley.core.limits import BUS_BACKOFF_MS_MAX, BUS_OUTBOX_MS_MAX
from tests.bus.agents import ADA, BOB, CAROL, NOW, USER
from tests.bus.test_publishing import Heard
from tests.bus.world import World, echo, name_of, quiet

HOUR = 3600


async def parted(world: World, **options: object) -> tuple[Bus, Bus, Heard]:
    """Ada, who spools, and Bob, whom she has met and cannot reach."""
    ada, bob = await world.bus(ADA, **{"spool": "publish", **options}), await world.bus(BOB)
    heard = Heard()
    bob.subscribe("news", heard)
    await ada.connect(bob.fingerprint)
    await quiet()
    world.network.sever(ada.fingerprint, bob.fingerprint)
    await quiet()
    return ada, bob, heard


async def test_case_59_what_is_published_offline_is_queued_and_delivered_once_the_peer_resolves(world: World) -> None:
    ada, bob, heard = await parted(world)
    (delivery,) = await ada.publish("news", b"hello")
    assert delivery.outcome == "spooled"
    assert isinstance(delivery.error, PeerUnreachable)
    assert [each.id for each in (await ada.outbox()).waiting] == [delivery.outbox_id]
    world.network.mend(ada.fingerprint, bob.fingerprint)
    world.resolver.announce(bob.fingerprint, bob.address)
    await quiet()
    assert heard.bodies == [b"hello"]
    assert (await ada.outbox()).waiting == ()


async def test_weakness_23_the_spool_drains_when_its_wait_is_over(world: World) -> None:
    ada, bob, heard = await parted(world)
    await ada.publish("news", b"hello")
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await asyncio.sleep(3)
    assert heard.bodies == [b"hello"]


async def test_weakness_23_the_spool_drains_when_the_peer_calls(world: World) -> None:
    ada, bob, heard = await parted(world)
    await ada.publish("news", b"hello")
    await asyncio.sleep(HOUR)
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await bob.connect(ada.fingerprint)
    await quiet()
    assert heard.bodies == [b"hello"]


async def test_weakness_4_a_bus_spools_by_its_policy_and_one_in_memory_not_unless_told(world: World) -> None:
    ada, bob, _ = await parted(world, spool=None)
    with pytest.raises(PeerUnreachable):
        await ada.publish_to(bob.fingerprint, "news", b"hello")
    assert (await ada.outbox()).waiting == ()


async def test_weakness_5_a_request_is_spooled_only_where_that_is_asked_for_and_no_longer_than_it_waits(
    world: World,
) -> None:
    ada, bob, _ = await parted(world)
    with pytest.raises(PeerUnreachable):
        await ada.request(bob.fingerprint, "news", b"")
    assert (await ada.outbox()).waiting == ()


async def test_weakness_5_a_spooled_request_is_answered_if_the_peer_comes_in_time(world: World) -> None:
    ada = await world.bus(ADA, spool="all")
    async with echo(world, BOB) as bob:
        await ada.connect(bob.fingerprint)
        world.network.sever(ada.fingerprint, bob.fingerprint)
        await quiet()
        asking = asyncio.ensure_future(ada.request(bob.fingerprint, "echo", b"hello", timeout=60))
        await quiet()
        (kept,) = (await ada.outbox()).waiting
        assert 59_000 < kept.expires_at - world.clock.now_ms() <= 60_000
        world.network.mend(ada.fingerprint, bob.fingerprint)
        assert await asking == b"hello"
        assert (await ada.outbox()).waiting == ()


async def test_to_a_peer_that_was_never_met_nothing_can_be_spooled_and_the_caller_is_told(world: World) -> None:
    ada = await world.bus(ADA, spool="all")
    with pytest.raises(PeerUnreachable, match="never met"):
        await ada.publish_to(name_of(CAROL), "news", b"hello")
    assert (await ada.outbox()).waiting == ()


@pytest.mark.parametrize("sealed", [True, False])
async def test_weakness_20_what_waits_is_sealed_to_its_recipient_unless_told_otherwise(
    world: World, sealed: bool
) -> None:
    ada, bob, heard = await parted(world, seal_spool=sealed)
    await ada.publish("news", b"a secret")
    (kept,) = (await ada.outbox()).waiting
    assert (b"a secret" not in kept.payload) == sealed
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await asyncio.sleep(10)
    assert heard.bodies == [b"a secret"]


async def test_what_waits_leaves_in_its_order_and_nothing_new_overtakes_it(world: World) -> None:
    ada, bob, heard = await parted(world)
    for number in range(5):
        await ada.publish("news", b"%d" % number)
    world.network.mend(ada.fingerprint, bob.fingerprint)
    later = await ada.publish_to(bob.fingerprint, "news", b"later")
    assert later.outcome == "spooled"
    await asyncio.sleep(10)
    assert heard.bodies == [b"0", b"1", b"2", b"3", b"4", b"later"]
    assert (await ada.publish_to(bob.fingerprint, "news", b"now")).outcome == "delivered"


async def test_what_waits_can_be_sent_at_once_and_who_asks_for_that_is_told_when_it_was_tried(world: World) -> None:
    ada, bob, heard = await parted(world)
    for number in range(5):
        await ada.publish("news", b"%d" % number)
    began = world.clock.now_ms()
    await ada.drain()
    assert len((await ada.outbox()).waiting) == 5, "nobody was reached"
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await ada.drain()
    assert (await ada.publish_to(bob.fingerprint, "news", b"now")).outcome == "delivered"
    assert world.clock.now_ms() == began
    await quiet()
    assert heard.bodies == [b"0", b"1", b"2", b"3", b"4", b"now"]


async def test_weakness_9_waits_grow_up_to_the_longest_and_attempts_are_told(world: World) -> None:
    ada, _, _ = await parted(world)
    await ada.publish("news", b"hello")
    await asyncio.sleep(HOUR)
    (kept,) = (await ada.outbox()).waiting
    assert 10 < kept.attempts < 20
    assert kept.not_before - world.clock.now_ms() <= BUS_BACKOFF_MS_MAX
    assert "BUS_PEER_UNREACHABLE" in (kept.last_error or "")


async def test_weakness_11_a_full_outbox_is_told_to_the_caller(world: World) -> None:
    ada, bob, _ = await parted(world, store=MemoryMeshStore(StoreBounds(outbox=Bounds(items=1))))
    await ada.publish("news", b"one")
    with pytest.raises(OutboxFull):
        await ada.publish_to(bob.fingerprint, "news", b"two")
    (delivery,) = await ada.publish("news", b"two")
    assert delivery.outcome == "failed"
    assert isinstance(delivery.error, OutboxFull)


async def test_weakness_12_what_expires_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    ada, bob, heard = await parted(world)
    (delivery,) = await ada.publish("news", b"hello")
    await asyncio.sleep(BUS_OUTBOX_MS_MAX / 1000 + 61)
    outbox = await ada.outbox()
    assert outbox.waiting == ()
    assert [each.id for each in outbox.expired] == [delivery.outbox_id]
    assert "BUS_PEER_UNREACHABLE" in (outbox.expired[0].why or "")
    assert "expired in the outbox" in caplog.text
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await bob.connect(ada.fingerprint)
    await quiet()
    assert heard.bodies == []


async def test_weakness_13_what_is_refused_for_good_is_wedged_and_holds_up_nobody(world: World) -> None:
    ada, bob, heard = await parted(world)
    first = await ada.publish_to(bob.fingerprint, "weather", b"sun")
    await ada.publish("news", b"hello")
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await asyncio.sleep(10)
    assert heard.bodies == [b"hello"]
    (wedged,) = (await ada.outbox()).waiting
    assert wedged.id == first.outbox_id
    assert (wedged.wedged or "").startswith("BUS_NO_SUBSCRIBER")
    assert await ada.unwedge(wedged.id)
    await asyncio.sleep(10)
    assert (await ada.outbox()).waiting[0].wedged
    assert await ada.discard(wedged.id)
    assert not await ada.discard(wedged.id)
    assert (await ada.outbox()).waiting == ()


async def test_what_nobody_wanted_goes_when_somebody_subscribes(world: World) -> None:
    ada, bob, _ = await parted(world)
    await ada.publish_to(bob.fingerprint, "weather", b"sun")
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await asyncio.sleep(10)
    assert (await ada.outbox()).waiting[0].wedged
    weather = Heard()
    bob.subscribe("weather", weather)
    await quiet()
    assert weather.bodies == [b"sun"]
    assert (await ada.outbox()).waiting == ()


async def test_what_waits_for_a_revoked_peer_is_wedged_and_never_sent(world: World) -> None:
    ada, bob, heard = await parted(world)
    await ada.publish("news", b"hello")
    revoked = state(USER, NOTHING_REVOKED, [bob.fingerprint], next_generation=False, now_ms=NOW)
    await ada.learn([revoked.encode()])
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await asyncio.sleep(10)
    assert heard.bodies == []
    assert ((await ada.outbox()).waiting[0].wedged or "").startswith("BUS_REVOKED")
    assert await ada.publish("news", b"again") == []


async def test_one_peer_that_is_away_holds_up_no_other(world: World) -> None:
    ada, bob, heard = await parted(world)
    carol = await world.bus(CAROL)
    others = Heard()
    carol.subscribe("news", others)
    await quiet()
    outcomes = {each.peer: each.outcome for each in await ada.publish("news", b"hello")}
    assert outcomes == {bob.fingerprint: "spooled", carol.fingerprint: "delivered"}
    await quiet()
    assert (heard.bodies, others.bodies) == ([], [b"hello"])


async def test_a_full_inbox_refuses_for_now_and_the_message_comes_later(world: World) -> None:
    ada = await world.bus(ADA, spool="publish")
    bob = await world.bus(BOB, store=MemoryMeshStore(StoreBounds(inbox=Bounds(items=1))), topics=frozenset({"news"}))
    await quiet()
    assert (await ada.publish_to(bob.fingerprint, "news", b"one")).outcome == "delivered"
    second = await ada.publish_to(bob.fingerprint, "news", b"two")
    assert second.outcome == "spooled"
    assert second.error is not None
    assert second.error.code == "BUS_PEER_BUSY"
    heard = Heard()
    bob.subscribe("news", heard)
    await asyncio.sleep(60)
    assert heard.bodies == [b"one", b"two"]


async def test_nothing_is_dispatched_twice_when_acknowledgements_are_lost(world: World) -> None:
    """Weaknesses 6 and 7: it is sent again until it is acknowledged, and is one message for all that."""
    ada = await world.bus(ADA, spool="publish")
    bob = await world.bus(BOB)
    heard: list[bytes] = []

    async def hear(message: Message) -> None:
        heard.append(message.body)
        world.network.sever(ada.fingerprint, bob.fingerprint)  # before the acknowledgement can be read

    bob.subscribe("news", hear)
    await ada.connect(bob.fingerprint)
    await quiet()
    world.network.hold(ada.fingerprint, bob.fingerprint)
    publishing = asyncio.ensure_future(ada.publish_to(bob.fingerprint, "news", b"hello"))
    await quiet()
    world.network.release(ada.fingerprint, bob.fingerprint)
    assert (await publishing).outcome == "spooled"
    await quiet()
    world.network.mend(ada.fingerprint, bob.fingerprint)
    await asyncio.sleep(60)
    assert heard == [b"hello"]
    assert (await ada.outbox()).waiting == ()


@pytest.mark.parametrize(
    "says", [b"\1\2 a hello of the next version", encode_frame(Refusal("BUS_LINK_INVALID", False))]
)
async def test_what_waits_for_a_peer_of_another_version_waits_for_its_upgrade(world: World, says: bytes) -> None:
    ada, bob, _ = await parted(world)
    await ada.publish("news", b"hello")
    await world.crash(bob)
    newer = world.network.transport(bob.fingerprint)

    async def say(channel: Channel) -> None:
        await channel.send(says)
        await channel.receive()
        await asyncio.sleep(1)

    world.network.mend(ada.fingerprint, bob.fingerprint)
    world.resolver.announce(bob.fingerprint, await newer.listen(say))
    await asyncio.sleep(HOUR)
    (waiting,) = (await ada.outbox()).waiting
    assert waiting.attempts > 5
    assert waiting.wedged is None
    await newer.close()
    heard = Heard()
    again = await world.bus(BOB, announced=False)
    again.subscribe("news", heard)
    world.resolver.announce(again.fingerprint, again.address)
    await asyncio.sleep(HOUR)
    assert heard.bodies == [b"hello"]
