"""What the connections of a bus tell: who was met, what peers want, what came, and what was revoked."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from parley.bus.background import Background
from parley.bus.connection import Connection
from parley.bus.connections import Connections
from parley.bus.envelope import Opened
from parley.bus.fingerprint import Fingerprint
from parley.bus.intake import Intake
from parley.bus.latest_work import LatestWork
from parley.bus.peer_book import PeerBook
from parley.bus.renewals import Renewals
from parley.bus.revocation import Revocations
from parley.bus.spool import Spool
from parley.bus.trust import Trust
from parley.core.bus_errors import BusError
from parley.core.clock import Clock

_log: Final = logging.getLogger(__name__)

KeepRevocations = Callable[[Revocations], None]


class Reception:
    """The ``Owner`` that connections tell; it hands on to whoever does something about it."""

    def __init__(
        self,
        trust: Trust,
        intake: Intake,
        book: PeerBook,
        spool: Spool,
        connections: Connections,
        clock: Clock,
        background: Background,
        keep_revocations: KeepRevocations | None,
        renewals: Renewals,
    ) -> None:
        self._trust = trust
        self._intake = intake
        self._book = book
        self._spool = spool
        self._connections = connections
        self._clock = clock
        self._background = background
        self._noting = LatestWork(background, self._write_down)
        self._keep = keep_revocations
        self._renewals = renewals
        self._keeping = asyncio.Lock()

    def met(self, connection: Connection) -> None:
        self._note(connection)
        self._renewals.look(connection)

    def topics_told(self, connection: Connection) -> None:
        self._note(connection)

    def arrived(self, connection: Connection, opened: Opened) -> None:
        self._intake.arrived(connection, opened)

    def renewed(self, connection: Connection, line: str) -> None:
        self._renewals.take(connection.peer, line)

    def learned(self) -> None:
        """Ends connections to whoever is revoked now, and tells all others."""
        if self._keep is not None:
            self._background.spawn(self._keep_revocations(self._keep))
        statements = self._trust.statements()
        for connection in self._connections.all():
            try:
                connection.link.authority(self._clock.now_ms())
            except BusError as error:
                connection.refuse(error)
            else:
                connection.tell_statements(statements)

    def _note(self, connection: Connection) -> None:
        if self._book.meet(connection) is not None:
            self._noting.ask(connection.peer)

    async def _write_down(self, peer: Fingerprint) -> None:
        known = self._book.get(peer)
        assert known is not None  # a peer that was met is not forgotten while the bus lasts
        await self._book.keep(known)
        try:
            await self._spool.subscribed(peer)
            await self._spool.hasten(peer)
        except BusError as error:
            _log.error("the outbox cannot be looked through: %s", error)

    async def _keep_revocations(self, keep: KeepRevocations) -> None:
        async with self._keeping:  # one after the other, or an older one would be the last
            try:
                await asyncio.to_thread(keep, self._trust.revocations)
            except Exception:
                _log.exception("what was revoked cannot be written down; it is known until the bus ends")
