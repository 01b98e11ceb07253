"""Meeting peers as they are announced, so that each knows what the other subscribes to and gets what waits for it.

Anybody on the LAN can announce agents by the thousand. So only a few of those that were never met are looked for at a
time, and no more wait for their turn than announcements are kept. A peer that was met before waits behind nobody.
"""

import asyncio
import logging
from typing import Final

from parley.bus.background import Background
from parley.bus.connections import Connections
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.latest_work import LatestWork
from parley.bus.peer_book import PeerBook
from parley.bus.spool import Spool
from parley.core import limits
from parley.core.bus_errors import BusError, ChannelClosed, PeerUnreachable

_log: Final = logging.getLogger(__name__)


class Greetings:
    """Belongs to one event loop."""

    def __init__(self, connections: Connections, spool: Spool, book: PeerBook) -> None:
        self._connections = connections
        self._spool = spool
        self._book = book
        self._background = Background()
        self._under_way = LatestWork(self._background, self._greet)
        self._strangers = asyncio.Semaphore(limits.BUS_STRANGERS_GREETED)

    def seen(self, peer: Fingerprint) -> None:
        """The peer was announced."""
        crowded = len(self._under_way) >= limits.BUS_ANNOUNCEMENTS_MAX
        if peer in self._under_way or self._book.get(peer) is not None or not crowded:
            self._under_way.ask(peer)

    async def close(self) -> None:
        """Meets nobody any more."""
        await self._background.finish(0)

    async def _greet(self, peer: Fingerprint) -> None:
        if self._book.get(peer) is not None:
            await self._meet(peer)
            return
        async with self._strangers:
            await self._meet(peer)

    async def _meet(self, peer: Fingerprint) -> None:
        try:
            await self._spool.hasten(peer)
            await self._connections.to(peer)
        except (PeerUnreachable, ChannelClosed) as error:
            _log.info("%s was announced and is not there: %s", short(peer), error)
        except BusError as error:
            _log.warning("%s was announced: %s", short(peer), error)
