"""Publishing, subscribing, and what becomes of a message until its handler has returned."""

import asyncio

import pytest

from parley.bus import MemoryMeshStore, Message
from parley.core.bus_errors import BusClosed, FrameTooLarge, NoSubscriber, PeerUnreachable
from parley.core.errors import InvalidInput
from parley.core.limits import BUS_DISPATCHES_MAX
from tests.bus.agents import ADA, BOB, CAROL
from tests.bus.world import World, echo, name_of, quiet


class Heard:
    """A handler, and what it got."""

    def __init__(self, failures: int = 0) -> None:
        self.messages: list[Message] = []
        self._failures = failures

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        if len(self.messages) <= self._failures:
            raise RuntimeError("not yet")

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.messages]


async def test_what_is_published_reaches_every_peer_that_subscribes_and_no_other(world: World) -> None:
    ada, bob, carol = await world.bus(ADA), await world.bus(BOB), await world.bus(CAROL)
    heard, alerts = Heard(), Heard()
    bob.subscribe("news", heard)
    carol.subscribe("alerts", alerts)
    await quiet()
    (delivery,) = await ada.publish("news", b"hello")
    await quiet()
    assert (delivery.peer, delivery.outcome) == (bob.fingerprint, "delivered")
    assert heard.bodies == [b"hello"]
    assert (heard.messages[0].peer, heard.messages[0].topic) == (ada.fingerprint, "news")
    assert not heard.messages[0].redelivered
    assert alerts.bodies == []


async def test_who_no_longer_subscribes_gets_nothing_more(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    subscription = bob.subscribe("news", Heard())
    await quiet()
    await subscription.close()
    await quiet()
    assert await ada.publish("news", b"hello") == []
    with pytest.raises(NoSubscriber):
        await ada.publish_to(bob.fingerprint, "news", b"hello")


async def test_a_publication_tells_for_each_peer_what_became_of_it(world: World) -> None:
    ada, bob, carol = await world.bus(ADA), await world.bus(BOB), await world.bus(CAROL)
    bob.subscribe("news", Heard())
    carol.subscribe("news", Heard())
    await quiet()
    world.network.sever(ada.fingerprint, carol.fingerprint)
    deliveries = {each.peer: each for each in await ada.publish("news", b"hello")}
    assert deliveries[bob.fingerprint].outcome == "delivered"
    assert deliveries[carol.fingerprint].outcome == "failed"
    assert isinstance(deliveries[carol.fingerprint].error, PeerUnreachable)


async def test_a_handler_gets_one_message_after_the_other_in_their_order(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    running: list[bytes] = []
    order: list[bytes] = []

    async def handle(message: Message) -> None:
        assert running == []
        running.append(message.body)
        await asyncio.sleep(0.1)
        order.append(running.pop())

    bob.subscribe("news", handle)
    bodies = [b"%d" % number for number in range(20)]
    await asyncio.gather(*(ada.publish_to(bob.fingerprint, "news", body) for body in bodies))
    await asyncio.sleep(10)
    assert order == bodies
    assert await bob.inbox() == []


async def test_a_subscription_is_iterated_over_and_a_message_is_done_when_the_next_is_asked_for(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    async with bob.subscribe("news") as subscription:
        for body in (b"one", b"two"):
            await ada.publish_to(bob.fingerprint, "news", body)
        first = await anext(subscription)
        assert [each.dispatches for each in await bob.inbox()] == [1, 0]
        second = await anext(subscription)
        assert (first.body, second.body) == (b"one", b"two")
        assert len(await bob.inbox()) == 1


async def test_who_stops_asking_loses_nothing(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    subscription = bob.subscribe("news")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await anext(subscription)
    await ada.publish_to(bob.fingerprint, "news", b"one")
    assert (await anext(subscription)).body == b"one"
    await subscription.close()
    again = bob.subscribe("news")
    message = await anext(again)
    assert message.body == b"one"
    assert message.redelivered
    waiting = asyncio.ensure_future(anext(again))
    await quiet()
    assert await bob.inbox() == []
    await again.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_a_message_that_a_handler_raised_on_comes_again(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    heard = Heard(failures=2)
    bob.subscribe("news", heard)
    await ada.publish_to(bob.fingerprint, "news", b"hello")
    await asyncio.sleep(60)
    assert heard.bodies == [b"hello"] * 3
    assert [each.redelivered for each in heard.messages] == [False, True, True]
    assert await bob.inbox() == []


async def test_after_five_runs_a_message_is_wedged_until_somebody_unwedges_it(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    heard = Heard(failures=BUS_DISPATCHES_MAX)
    bob.subscribe("news", heard)
    await ada.publish_to(bob.fingerprint, "news", b"hello")
    await asyncio.sleep(600)
    assert len(heard.messages) == BUS_DISPATCHES_MAX
    (wedged,) = await bob.inbox()
    assert wedged.wedged
    assert not await bob.unwedge_inbox(wedged.id + 1)
    assert await bob.unwedge_inbox(wedged.id)
    await asyncio.sleep(1)
    assert len(heard.messages) == BUS_DISPATCHES_MAX + 1
    assert await bob.inbox() == []


async def test_a_topic_that_is_named_at_the_start_waits_for_its_handler(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB, topics=frozenset({"news"}))
    await quiet()
    await ada.publish("news", b"early")
    assert len(await bob.inbox()) == 1
    heard = Heard()
    bob.subscribe("news", heard)
    await quiet()
    assert heard.bodies == [b"early"]
    assert not heard.messages[0].redelivered


async def test_a_topic_has_one_handler_and_one_subscription(world: World) -> None:
    async with echo(world, BOB) as bob:
        bob.subscribe("echo", Heard())
        with pytest.raises(InvalidInput):
            bob.subscribe("echo")
        with pytest.raises(InvalidInput):
            bob.handle("echo", lambda message: asyncio.sleep(0, b""))


@pytest.mark.parametrize("topic", ["", "two\nlines", "x" * 201])
async def test_a_topic_that_cannot_be_is_refused(world: World, topic: str) -> None:
    ada = await world.bus(ADA)
    with pytest.raises(InvalidInput):
        ada.subscribe(topic)
    with pytest.raises(InvalidInput):
        await ada.publish(topic, b"")


async def test_what_fits_into_no_envelope_is_refused_before_it_is_sent_or_spooled(world: World) -> None:
    ada = await world.bus(ADA, spool="publish")
    async with echo(world, BOB) as bob:
        largest = bytes(16 * 1024 * 1024 - 1024)
        assert await ada.request(bob.fingerprint, "echo", largest) == largest
        with pytest.raises(FrameTooLarge):
            await ada.publish_to(bob.fingerprint, "echo", bytes(16 * 1024 * 1024))
        assert (await ada.outbox()).waiting == ()


async def test_requests_run_side_by_side_as_many_as_may_and_the_others_wait(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB, handlers_max=2)
    most = running = 0

    async def handle(message: Message) -> bytes:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        return message.body

    bob.handle("work", handle)
    bodies = [b"%d" % number for number in range(9)]
    assert await asyncio.gather(*(ada.request(bob.fingerprint, "work", each) for each in bodies)) == bodies
    assert most == 2


async def test_peers_are_those_that_were_met_and_those_that_are_announced(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    bob.subscribe("news", Heard())
    world.resolver.announce(name_of(CAROL))
    await quiet()
    found = {each.fingerprint: each for each in ada.peers()}
    assert set(found) == {bob.fingerprint, name_of(CAROL)}
    assert found[bob.fingerprint].connected
    assert (found[bob.fingerprint].role, found[bob.fingerprint].topics) == ("agent", ("news",))
    assert not found[name_of(CAROL)].connected
    assert found[name_of(CAROL)].seen_at is None


async def test_a_request_waits_for_a_peer_to_be_announced(world: World) -> None:
    ada = await world.bus(ADA)
    asking = asyncio.ensure_future(ada.request(name_of(BOB), "echo", b"hello"))
    await asyncio.sleep(1)
    async with echo(world, BOB):
        assert await asking == b"hello"


async def test_a_close_waits_for_what_is_under_way_and_refuses_what_is_new(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    begun = asyncio.Event()

    async def slow(message: Message) -> bytes:
        begun.set()
        await asyncio.sleep(1)
        return b"done"

    bob.handle("work", slow)
    asking = asyncio.ensure_future(ada.request(bob.fingerprint, "work", b""))
    await begun.wait()
    closing = asyncio.ensure_future(bob.close())
    await quiet()
    with pytest.raises(BusClosed):
        await bob.publish("news", b"")
    assert await asking == b"done"
    await closing
    await bob.close()


async def test_case_62_a_default_bus_keeps_nothing_and_counts_from_one(world: World) -> None:
    store = MemoryMeshStore()
    ada = await world.bus(ADA, store=store)
    async with echo(world, BOB) as bob:
        await ada.request(bob.fingerprint, "echo", b"hello")
        assert await store.next_out_seq() == 2
        world.network.sever(ada.fingerprint, bob.fingerprint)
        with pytest.raises(PeerUnreachable):
            await ada.publish_to(bob.fingerprint, "echo", b"hello")
    assert (await ada.outbox()).waiting == ()


async def test_one_task_at_a_time_asks_a_subscription_and_none_a_handlers(world: World) -> None:
    bob = await world.bus(BOB)
    subscription = bob.subscribe("news")
    asking = asyncio.ensure_future(anext(subscription))
    await quiet()
    with pytest.raises(InvalidInput):
        await anext(subscription)
    with pytest.raises(InvalidInput):
        await anext(bob.subscribe("alerts", Heard()))
    await bob.close()
    with pytest.raises(StopAsyncIteration):
        await asking


async def test_a_subscription_that_was_closed_with_a_message_in_hand_gives_no_more(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    subscription = bob.subscribe("news")
    await ada.publish_to(bob.fingerprint, "news", b"hello")
    await anext(subscription)
    await subscription.close()
    with pytest.raises(StopAsyncIteration):
        await anext(subscription)
    assert len(await bob.inbox()) == 1


async def test_a_handler_may_end_its_own_subscription(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    ended: list[bytes] = []

    async def once(message: Message) -> None:
        await subscription.close()
        ended.append(message.body)

    subscription = bob.subscribe("news", once)
    for body in (b"one", b"two"):
        await asyncio.gather(ada.publish_to(bob.fingerprint, "news", body), return_exceptions=True)
    await quiet()
    assert ended == [b"one"]
    assert await bob.inbox() == []


async def test_an_unannounced_peer_is_reached_once_it_calls(world: World) -> None:
    ada = await world.bus(ADA)
    asking = asyncio.ensure_future(ada.request(name_of(BOB), "echo", b"hello"))
    async with echo(world, BOB, announced=False) as bob:
        await bob.connect(ada.fingerprint)
        assert await asking == b"hello"


async def test_what_is_sent_again_under_its_message_id_is_handled_once(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    heard = Heard()
    bob.subscribe("news", heard)
    deliveries = [await ada.publish_to(bob.fingerprint, "news", b"hello", message_id=b"m" * 16) for _ in range(3)]
    await quiet()
    assert {(each.outcome, each.message_id) for each in deliveries} == {("delivered", b"m" * 16)}
    assert heard.bodies == [b"hello"]
    with pytest.raises(InvalidInput):
        await ada.publish_to(bob.fingerprint, "news", b"hello", message_id=b"short")


async def test_two_requests_at_a_time_have_two_message_ids(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    bob.handle("slow", lambda message: asyncio.sleep(1, message.body))
    asking = asyncio.ensure_future(ada.request(bob.fingerprint, "slow", b"hello", message_id=b"m" * 16))
    await quiet()
    with pytest.raises(InvalidInput):
        await ada.request(bob.fingerprint, "slow", b"hello", message_id=b"m" * 16)
    assert await asking == b"hello"


async def test_who_gives_up_a_request_leaves_nothing_behind(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)
    bob.handle("slow", lambda message: asyncio.sleep(1, message.body))
    asking = asyncio.ensure_future(ada.request(bob.fingerprint, "slow", b"hello"))
    await quiet()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await ada.request(bob.fingerprint, "slow", b"again") == b"again"
    assert await ada.inbox() == []
