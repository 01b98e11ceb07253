"""Buses over real connections: what they find under false addresses costs them a dial, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from parley.bus import Caveats, certify
from parley.bus.bus import Bus
from parley.bus.options import BusOptions
from parley.bus.static_resolver import StaticResolver
from parley.bus.subscription import Message
from parley.bus.tls_transport import TlsTransport
from parley.bus.transport import Address
from parley.bus.trust import Identity
from parley.core.bus_errors import CertificateExpired, PeerUnreachable
from parley.core.clock import SystemClock
from parley.core.sealing import public_key
from tests.bus.agents import ADA, BOB, BOB_NAME, CAROL, STRANGER, USER
from tests.bus.wires import HOST, SECONDS, credentials, listening

REAL_TIME = True

EVERYTHING = Caveats()


@asynccontextmanager
async def bus(seed: bytes, known: StaticResolver, options: BusOptions | None = None) -> AsyncIterator[Bus]:
    chain = certify(USER, public_key(seed), role="agent", caveats=EVERYTHING, now_ms=SystemClock().now_ms())
    transport = TlsTransport(credentials(seed), host=HOST)
    async with await Bus.bind(Identity(seed, chain), resolver=known, transport=transport, options=options) as made:
        yield made


async def echo(message: Message) -> bytes:
    return message.body


def found_at(*addresses: Address) -> StaticResolver:
    return StaticResolver({BOB_NAME: addresses})


async def asked(ada: Bus, bodies: Sequence[bytes]) -> list[bytes]:
    async with asyncio.timeout(SECONDS):
        return list(await asyncio.gather(*(ada.request(BOB_NAME, "echo", body) for body in bodies)))


async def test_fifty_requests_side_by_side_are_all_answered() -> None:
    async with bus(BOB, StaticResolver()) as bob, bus(ADA, found_at(bob.address)) as ada:
        bob.handle("echo", echo)
        bodies = [bytes([number]) * 1_000 * number for number in range(50)]
        assert await asked(ada, bodies) == bodies


async def test_a_peer_is_found_behind_false_addresses() -> None:
    """Another user's agent, another agent of this user, and nobody: each is tried, and none is sent a message."""
    other_users = credentials(BOB, STRANGER)
    async with (
        listening(other_users) as stranger,
        listening(credentials(CAROL)) as carol,
        bus(BOB, StaticResolver()) as bob,
        bus(ADA, found_at(stranger.address, carol.address, Address(HOST, 1), bob.address)) as ada,
    ):
        bob.handle("echo", echo)
        assert await asked(ada, [b"hello"]) == [b"hello"]
        assert stranger.came == []
        assert carol.received == []


async def test_where_all_addresses_are_false_the_peer_is_unreachable() -> None:
    async with listening(credentials(CAROL)) as carol, bus(ADA, found_at(carol.address, Address(HOST, 1))) as ada:
        with pytest.raises(PeerUnreachable) as failed:
            await asked(ada, [b"hello"])
        assert failed.value.details["tried"] == [list(carol.address), [HOST, 1]]


async def test_a_peer_whose_certificate_has_ended_is_told_as_such_whatever_else_was_tried() -> None:
    """Also where nothing can wait for it, as it was never met."""
    async with listening(credentials(BOB, ended=True)) as ended:
        known = found_at(ended.address, Address(HOST, 1))
        async with bus(ADA, known) as ada, bus(CAROL, known, BusOptions(spool="publish")) as carol:
            with pytest.raises(CertificateExpired):
                await asked(ada, [b"hello"])
            with pytest.raises(CertificateExpired):
                await carol.publish_to(BOB_NAME, "news", b"hello")
        assert ended.received == []
