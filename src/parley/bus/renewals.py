"""Renewing on the bus: the machine with the user key gives peers a new certificate when theirs ends soon.

It looks when it meets a peer, and every hour at those that it is connected to. Who may have a new one, and what is to
be believed of one that comes, is decided by whoever has the folder (``renewal``): a bus only carries them.
"""

import asyncio
import logging
from typing import Final

from parley.bus.background import Background
from parley.bus.chain import decode_chain
from parley.bus.connection import Connection
from parley.bus.connections import Connections
from parley.bus.enrolment import is_due, renews_itself
from parley.bus.fingerprint import Fingerprint, short
from parley.bus.latest_work import LatestWork
from parley.bus.options import BusOptions
from parley.bus.trust import Trust
from parley.core.clock import Clock

_LOOK_SECONDS: Final = 3_600.0
_log: Final = logging.getLogger(__name__)


class Renewals:
    """Belongs to one event loop."""

    def __init__(self, trust: Trust, clock: Clock, background: Background, options: BusOptions) -> None:
        self._trust = trust
        self._clock = clock
        self._background = background
        self._renew = options.renew
        self._keep = options.keep_renewal
        self._keeping = asyncio.Lock()
        self._given: dict[Fingerprint, str] = {}
        """The last line that each peer gave, until it is written down."""
        self._taking = LatestWork(background, self._write_down)

    def look(self, connection: Connection) -> None:
        """Gives the peer a new certificate if it is time for one."""
        hello = connection.link.met
        if self._renew is None or hello is None:
            return
        chain = decode_chain(hello.chain)
        generation, now_ms = self._trust.revocations.generation, self._clock.now_ms()
        if renews_itself(chain) and is_due(chain, generation=generation, now_ms=now_ms):
            self._background.spawn(self._give(connection))

    def take(self, peer: Fingerprint, line: str) -> None:
        """Has a grant written down that a peer gave. Of several the last one counts."""
        if self._keep is not None:
            self._given[peer] = line
            self._taking.ask(peer)

    async def run(self, connections: Connections) -> None:
        """Looks at all peers now and then, as a connection may last longer than a certificate."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for connection in connections.all():
                self.look(connection)

    async def _give(self, connection: Connection) -> None:
        hello = connection.link.met
        assert self._renew is not None
        assert hello is not None
        try:
            line = await asyncio.to_thread(self._renew, decode_chain(hello.chain))
        except Exception:
            _log.exception("the certificate of %s could not be renewed", short(connection.peer))
            return
        if line is not None:
            connection.tell_renewal(line)

    async def _write_down(self, peer: Fingerprint) -> None:
        assert self._keep is not None
        async with self._keeping:
            line = self._given.pop(peer, None)
            if line is None:  # it was the last one already when the one before was asked for
                return
            try:
                await asyncio.to_thread(self._keep, line)
            except Exception:
                _log.exception("a new certificate for this agent could not be kept")
