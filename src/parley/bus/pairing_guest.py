"""The side of a pairing that asks: it finds a machine that lets in, by an address or by multicast DNS.

A machine that answers is one that has committed to something; until then this side has shown nothing, and may try
others. It opens to one of them, once. If several answer, it opens to none: which of them is meant, a person says by an
address.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from parley.bus.enrolment import Grant
from parley.bus.multicast import Heard, Lost, Multicast, Service
from parley.bus.pairing import Attempt, Committed, Opened
from parley.bus.pairing_host import Begin
from parley.bus.pairing_wire import Compare, PairingWire, agree
from parley.bus.transport import Address
from parley.core import limits
from parley.core.bus_errors import PairingFailed, PairingMissed

SERVICE: Final = "_parley-pair._tcp.local."
_RECORDS_MAX: Final = 16
"""Records that are looked into at a time; more are made up by somebody."""
_AGAIN_SECONDS: Final = 0.5
"""Between two tries to reach an address at which nobody answers yet."""
_SETTLE_SECONDS: Final = 1.0
"""How long others that are announced at the same time may take to be heard."""


def pairing_multicast(
    heard: Heard = lambda name, said, addresses: None,
    lost: Lost = lambda name: None,
    *,
    missing: Callable[[str], None],
) -> Multicast:
    """Announces that this machine lets in, or hears of those that do."""
    return Multicast(Service(SERVICE, "pair", {}, heard, lost), missing=missing)


class Answered(NamedTuple):
    """A machine that lets in, and has committed to what it will show."""

    address: Address
    attempt: Attempt
    wire: PairingWire


async def at_address(address: Address, begin: Begin) -> Answered:
    """The machine at this address, once one answers there. Raises ``PairingFailed`` if that is none that pairs."""
    while True:
        try:
            return await _knock(address, begin)
        except (OSError, TimeoutError):
            await asyncio.sleep(_AGAIN_SECONDS)


class Announced:
    """Machines that announce that they let in. All of it is a claim; only addresses are taken from it."""

    def __init__(self) -> None:
        self._missing: list[str] = []
        self._held: dict[str, list[Address]] = {}
        self._changed = asyncio.Event()
        self._multicast = pairing_multicast(self._heard, self._lost, missing=self._missing.append)

    async def answered(self, begin: Begin) -> Answered:
        """The one that answers, once one does. Raises ``PairingMissed`` if several do, or nobody can be heard."""
        await self._multicast.start()
        if self._missing:
            raise PairingMissed(self._missing[0])
        try:
            while True:
                await self._changed.wait()
                await asyncio.sleep(_SETTLE_SECONDS)
                knocking = (self._first(addresses, begin) for addresses in list(self._held.values())[:_RECORDS_MAX])
                found = [each for each in await asyncio.gather(*knocking) if each is not None]
                if len(found) == 1:
                    return found[0]
                for each in found:
                    await each.wire.close()
                if found:
                    shown = [f"{host}:{port}" for host, port in (each.address for each in found)]
                    raise PairingMissed("several machines let in now: name the address of one", found=shown)
                if not self._held:
                    self._changed.clear()
        finally:
            await self._multicast.close()

    def _heard(self, name: str, said: Mapping[str, str | None], addresses: list[Address]) -> None:
        self._held[name] = addresses[: limits.BUS_ANNOUNCED_ADDRESSES_MAX]
        if len(self._held) > limits.BUS_ANNOUNCEMENTS_MAX:
            del self._held[next(iter(self._held))]
        self._changed.set()

    def _lost(self, name: str) -> None:
        self._held.pop(name, None)

    async def _first(self, addresses: list[Address], begin: Begin) -> Answered | None:
        for address in addresses:
            try:
                return await _knock(address, begin)
            except (OSError, TimeoutError, PairingFailed):
                continue
        return None


async def ask(answered: Answered, compare: Compare) -> Grant:
    """The grant, once both sides have confirmed. Raises ``PairingFailed``, or what ``compare`` raises."""
    _, attempt, wire = answered
    try:
        await wire.send(attempt.opening())
        async with asyncio.timeout(limits.BUS_HELLO_SECONDS):
            opened = attempt.receive(await wire.receive())
        assert isinstance(opened, Opened)  # an attempt takes nothing else now
        grant = await agree(attempt, wire, opened, compare)
    except TimeoutError as error:
        raise PairingFailed("the other side does not show anything", reason="ended") from error
    finally:
        await wire.close()
    assert grant is not None
    return grant


async def _knock(address: Address, begin: Begin) -> Answered:
    """Raises ``OSError`` or ``TimeoutError`` where nobody answers, ``PairingFailed`` where it is nobody that pairs."""
    async with asyncio.timeout(limits.BUS_DIAL_SECONDS):
        wire = PairingWire(*await asyncio.open_connection(*address))
        try:
            attempt = begin()
            await wire.send(attempt.commitment())
            committed = attempt.receive(await wire.receive())
        except BaseException:
            await wire.close()
            raise
    assert isinstance(committed, Committed)  # an attempt takes nothing else first
    return Answered(address, attempt, wire)
