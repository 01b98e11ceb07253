"""A pairing on a connection: frames, and the part that both sides have in common once there are digits.

The connection is plain TCP. Whoever stands in it reads and writes what they like; what that is worth, ``pairing``
decides. A frame is its length as u32 and its bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from parley.bus.enrolment import Grant
from parley.bus.pairing import FRAME_BYTES_MAX, Attempt, Granted, Opened
from parley.core.bus_errors import PairingFailed

_LENGTH_BYTES: Final = 4

Compare = Callable[[str, Opened], Awaitable[str]]
"""Shows somebody the digits and what the other side has shown, and returns the digits that they typed."""


class PairingWire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, frame: bytes) -> None:
        """Raises ``PairingFailed`` when the other side is gone."""
        try:
            self._writer.write(len(frame).to_bytes(_LENGTH_BYTES) + frame)
            await self._writer.drain()
        except OSError as error:
            raise _ended() from error

    async def receive(self) -> bytes:
        """The next frame. Raises ``PairingFailed``."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
            if length > FRAME_BYTES_MAX:
                raise PairingFailed("the other side sends more than a pairing needs", reason="malformed")
            return await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _ended() from error

    async def close(self) -> None:
        """Sends what is on its way, and hangs up. To close again does nothing."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def agree(attempt: Attempt, wire: PairingWire, opened: Opened, compare: Compare) -> Grant | None:
    """Has the digits compared here, and waits for the other side.

    On the side that asks it returns the grant; on the side that lets in None, once a grant may be issued. Raises
    ``PairingFailed`` when anything else comes of it.
    """
    typing = asyncio.ensure_future(compare(attempt.code, opened))
    receiving = asyncio.ensure_future(wire.receive())
    try:
        waiting: set[asyncio.Future[str] | asyncio.Future[bytes]] = {typing, receiving}
        while not attempt.may_issue:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if typing in done:
                waiting.discard(typing)
                attempt.confirm(typing.result())
                if attempt.side == "asks":
                    await wire.send(attempt.confirmation())
            if receiving in done:
                waiting.discard(receiving)
                event = attempt.receive(receiving.result())
                if isinstance(event, Granted):
                    return event.grant
                receiving = asyncio.ensure_future(wire.receive())  # that the other side gives up must be heard
                waiting.add(receiving)
        return None
    finally:
        for each in (typing, receiving):
            each.cancel()
        await asyncio.gather(typing, receiving, return_exceptions=True)


def _ended() -> PairingFailed:
    return PairingFailed("the other side has ended the pairing", reason="ended")
