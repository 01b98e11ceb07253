"""Asking and answering over a network in memory."""

import asyncio

import pytest

from parley.bus.subscription import Message
from parley.core.bus_errors import HandlerFailed, NoHandler, NoReply, PeerUnreachable
from tests.bus.agents import ADA, BOB, CAROL
from tests.bus.world import World, echo, name_of


async def test_a_request_is_answered(world: World) -> None:
    ada = await world.bus(ADA)
    async with echo(world, BOB) as bob:
        assert await ada.request(bob.fingerprint, "echo", b"hello") == b"hello"


async def test_case_61_fifty_parallel_sends_all_arrive(world: World) -> None:
    ada = await world.bus(ADA)
    async with echo(world, BOB) as bob:
        bodies = [b"%d" % number for number in range(50)]
        answers = await asyncio.gather(*(ada.request(bob.fingerprint, "echo", body) for body in bodies))
        assert answers == bodies
        assert world.network.connections(ada.fingerprint, bob.fingerprint) == 1


async def test_case_63_a_request_to_an_unknown_peer_is_unreachable_and_nothing_is_spooled(world: World) -> None:
    ada = await world.bus(ADA, spool="all")
    with pytest.raises(PeerUnreachable):
        await ada.request(name_of(CAROL), "echo", b"hello")
    assert (await ada.outbox()).waiting == ()


async def test_who_asks_is_told_that_nobody_answers_or_that_the_handler_failed_or_is_late(world: World) -> None:
    ada, bob = await world.bus(ADA), await world.bus(BOB)

    async def fail(message: Message) -> bytes:
        raise RuntimeError("broken")

    async def dawdle(message: Message) -> bytes:
        await asyncio.sleep(100)
        return b""

    bob.handle("broken", fail)
    bob.handle("slow", dawdle)
    with pytest.raises(NoHandler):
        await ada.request(bob.fingerprint, "echo", b"")
    with pytest.raises(HandlerFailed):
        await ada.request(bob.fingerprint, "broken", b"")
    with pytest.raises(NoReply):
        await ada.request(bob.fingerprint, "slow", b"", timeout=5)
    assert await bob.inbox() != []
