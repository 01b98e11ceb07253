"""Agents find each other by multicast DNS, and believe nothing that it says. Where there is none, all else works.

The records travel over loopback, where this system carries multicast there; else these tests are skipped.
"""

import asyncio
import secrets
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

import pytest

from parley.bus.announcements import Announcements
from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.mdns import SERVICE, Mdns
from parley.bus.multicast import own_addresses
from parley.bus.transport import Address
from parley.core.bus_errors import PeerUnreachable
from tests.bus.agents import ADA_NAME, BOB_NAME, STRANGER, USER_NAME
from tests.bus.wires import HOST, SECONDS, credentials, dialling, echo, listening

REAL_TIME = True

MDNS = ("224.0.0.251", 5353)
OURS = fingerprint_of(secrets.token_bytes(32))
"""The user of this run, as another run on this machine is heard as well."""


@cache
def carries_multicast() -> bool:
    """Whether what is sent to the group of multicast DNS over loopback comes back."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as said,
    ):
        try:
            heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            heard.bind(("", MDNS[1]))
            group = socket.inet_aton(MDNS[0]) + socket.inet_aton(HOST)
            heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            said.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HOST))
            heard.settimeout(2.0)
            # An answer without answers, so that whoever else listens takes no notice.
            probe = struct.pack("!6H", 0xBEEF, 0x8400, 0, 0, 0, 0)
            said.sendto(probe, MDNS)
            return any(heard.recv(9_000) == probe for _ in range(20))
        except OSError:
            return False


@pytest.fixture
def multicast() -> None:
    if not carries_multicast():
        pytest.skip("loopback carries no multicast here")


class Told(Announcements):
    """Tells when an announcement was taken back."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = asyncio.Event()

    def drop(self, name: str) -> None:
        super().drop(name)
        self.dropped.set()


class Heard:
    """What one machine has heard of."""

    def __init__(self) -> None:
        self.announced = Told()
        self.missing: list[str] = []
        self._seen: asyncio.Queue[Fingerprint] = asyncio.Queue()
        self.announced.watch(self._seen.put_nowait)

    async def of(self, peer: Fingerprint) -> list[Address]:
        async with asyncio.timeout(SECONDS):
            while await self._seen.get() != peer:
                pass
        return self.announced.candidates(peer)


@asynccontextmanager
async def machine(
    agent: Fingerprint, address: Address | None = None, user: Fingerprint = OURS
) -> AsyncIterator[tuple[Heard, Mdns]]:
    heard = Heard()
    mdns = Mdns(agent, user, heard.announced, missing=heard.missing.append, interfaces=[HOST])
    await mdns.start(address)
    try:
        yield heard, mdns
    finally:
        await mdns.close()
        await mdns.close()


@pytest.mark.usefixtures("multicast")
async def test_a_machine_that_announces_itself_is_found_and_reached() -> None:
    async with listening() as bob, machine(BOB_NAME, bob.address), machine(ADA_NAME) as (heard, _), dialling() as ada:
        (found,) = await heard.of(BOB_NAME)
        assert found == bob.address
        await echo(await ada.dial(found, peer=BOB_NAME))
        assert heard.missing == []


@pytest.mark.usefixtures("multicast")
async def test_a_machine_that_says_goodbye_is_forgotten() -> None:
    async with machine(ADA_NAME) as (heard, _):
        async with machine(BOB_NAME, Address(HOST, 7)):
            await heard.of(BOB_NAME)
        async with asyncio.timeout(SECONDS):
            await heard.announced.dropped.wait()
        assert heard.announced.candidates(BOB_NAME) == []


@pytest.mark.usefixtures("multicast")
async def test_other_users_machines_and_records_that_say_nothing_are_passed_over() -> None:
    """The honest record, which comes last, is the control."""
    other_user = credentials(STRANGER, STRANGER).agent
    bobs = {"agent": BOB_NAME.hex(), "user": OURS.hex()}
    async with (
        machine(ADA_NAME) as (heard, _),
        machine(other_user, Address(HOST, 7), user=other_user),
        announced("says-nothing", {"agent": "me"}, HOST),
        announced("is-nowhere", bobs, "224.0.0.1"),
        machine(BOB_NAME, Address(HOST, 8)),
    ):
        assert await heard.of(BOB_NAME) == [Address(HOST, 8)]
        assert heard.announced.peers() == {BOB_NAME}


@pytest.mark.usefixtures("multicast")
async def test_a_spoofed_record_costs_a_failed_dial_and_no_more() -> None:
    foreign = credentials(STRANGER, STRANGER)
    async with (
        listening(foreign) as spoofer,
        listening() as bob,
        machine(ADA_NAME) as (heard, _),
        machine(BOB_NAME, bob.address),
        machine(BOB_NAME, spoofer.address),
        dialling() as ada,
    ):
        while len(candidates := await heard.of(BOB_NAME)) < 2:
            pass
        reached: list[Address] = []
        for address in candidates:
            with suppress(PeerUnreachable):
                await echo(await ada.dial(address, peer=BOB_NAME))
                reached.append(address)
        assert reached == [bob.address]
        assert spoofer.came == []


@pytest.mark.parametrize("interface", ["::1", "203.0.113.7"])
async def test_where_multicast_is_missing_one_sentence_says_so(interface: str) -> None:
    heard = Heard()
    mdns = Mdns(ADA_NAME, USER_NAME, heard.announced, missing=heard.missing.append, interfaces=[interface])
    await mdns.start(Address(HOST, 7))
    (said,) = heard.missing
    assert "no multicast DNS here" in said
    await mdns.close()


def test_the_machines_own_addresses_are_those_that_others_can_reach() -> None:
    assert not any(host.startswith(("127.", "::1", "fe80")) for host in own_addresses())


def test_multicast_dns_is_loaded_only_by_whoever_uses_it() -> None:
    code = "import parley.bus, parley.bus.mdns, parley.bus.resolver, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"zeroconf", "ifaddr"}.isdisjoint(loaded)


@asynccontextmanager
async def announced(name: str, said: dict[str, str], host: str) -> AsyncIterator[None]:
    """A record that somebody has made up."""
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    name = f"{name}-{secrets.token_hex(4)}"
    zeroconf: Any = AsyncZeroconf(interfaces=[HOST])
    record = AsyncServiceInfo(
        SERVICE, f"{name}.{SERVICE}", port=9, server=f"{name}.local.", parsed_addresses=[host], properties=said
    )
    await zeroconf.async_register_service(record, cooperating_responders=True)
    try:
        yield
    finally:
        await zeroconf.async_close()
