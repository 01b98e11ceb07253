"""The side of a pairing that lets in: it waits for a machine to ask.

Anybody may connect. Whoever has not shown a request within ten seconds is hung up on, and ``Doors`` bounds how many of
them there are. The first one that has shown what it committed to is the one that this pairing is about: nobody else is
opened to, whatever becomes of it. If several could be tried, whoever stands in between would go on until the digits
happen to be equal.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from parley.bus.listening_socket import listening_socket
from parley.bus.newcomers import DEFAULT_BOUNDS, Doors, Newcomer
from parley.bus.pairing import Attempt, Opened
from parley.bus.pairing_wire import Compare, PairingWire, agree
from parley.bus.transport import Address
from parley.core import limits
from parley.core.bus_errors import BusError

_NOBODY: Final = ""

Begin = Callable[[], Attempt]
"""A new attempt, with a nonce of its own."""


class PairingHost:
    """A machine that waits for another one to ask."""

    def __init__(self, address: Address, asked: "asyncio.Future[_Asked]") -> None:
        self.address = address
        self._asked = asked

    async def pair(self, compare: Compare, issue: Callable[[str], str]) -> None:
        """Lets in the machine that asks first. ``issue`` makes its grant of its request, once both have confirmed.

        Raises ``PairingFailed``, or what ``compare`` or ``issue`` raises.
        """
        attempt, wire, opened = await self._asked
        assert opened.line is not None
        try:
            await wire.send(attempt.opening())
            await agree(attempt, wire, opened, compare)
            await wire.send(attempt.granting(issue(opened.line)))
        finally:
            await wire.close()


class _Asked(NamedTuple):
    attempt: Attempt
    wire: PairingWire
    opened: Opened


@asynccontextmanager
async def pairing_host(begin: Begin, host: str | None, port: int) -> AsyncGenerator[PairingHost]:
    """Takes connections while it lasts. Raises ``ListenRefused``."""
    asked: asyncio.Future[_Asked] = asyncio.get_running_loop().create_future()
    doors = Doors(DEFAULT_BOUNDS)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remote: tuple[str, ...] | None = writer.get_extra_info("peername")
        newcomer = Newcomer(remote[0] if remote else _NOBODY, writer.transport.abort)
        doors.arrive(newcomer)
        chosen = False
        try:
            with suppress(BusError, TimeoutError):  # it does not pair, and nothing was shown to it
                async with asyncio.timeout(limits.BUS_HELLO_SECONDS):
                    found = await _request(begin(), PairingWire(reader, writer))
                chosen = not asked.done()
                if chosen:
                    asked.set_result(found)
                    server.close()
        finally:
            doors.depart(newcomer)
            if not chosen:
                writer.transport.abort()

    listening = listening_socket(host, port)
    found_host, found_port, *_ = listening.getsockname()
    server = await asyncio.start_server(take, sock=listening)
    try:
        yield PairingHost(Address(found_host, found_port), asked)
    finally:
        server.close()
        doors.end_newcomers()
        asked.cancel()


async def _request(attempt: Attempt, wire: PairingWire) -> _Asked:
    """What a machine asks with, before anything is shown to it."""
    attempt.receive(await wire.receive())
    await wire.send(attempt.commitment())
    opened = attempt.receive(await wire.receive())
    assert isinstance(opened, Opened)  # an attempt takes nothing else now
    return _Asked(attempt, wire, opened)
