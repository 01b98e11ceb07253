"""One running hub: its parts, put together, and what they share."""

import asyncio
import os
import secrets
from collections.abc import Callable
from functools import cached_property
from typing import Final

from structlog.typing import FilteringBoundLogger

from parley.core.clock import Clock
from parley.core.errors import DatabaseCorrupt, FilesLost, ParleyError, ServiceUnavailable, StartupFailed
from parley.core.locks import lost_file
from parley.core.settings import Settings
from parley.hub.derived.derived import Derived
from parley.hub.derived.loading import PluginSource
from parley.hub.feed import Feed
from parley.hub.http.door import HubDoor
from parley.hub.http.guest import Guest, guest_endpoints
from parley.hub.http.table import ABOUT, ENDPOINTS
from parley.hub.large_moves import Moves
from parley.hub.monitor import Monitor
from parley.hub.page_access import PageAccess
from parley.hub.presence import Presence
from parley.hub.spool import Spool
from parley.hub.store import Store
from parley.hub.sweeper import Sweeper
from parley.hub.ws import FeedConnection
from parley.serve import InFlight, Metrics, TokenStore, register_secret
from parley.serve.connections import Connections
from parley.serve.door import Visit
from parley.serve.openapi import openapi_document
from parley.serve.origin import Names
from parley.serve.shell import Shell, too_many
from parley.sqlite import Checkpointer, open_writer
from parley.wire.answers import Health, Status
from parley.wire.server_file import PROTOCOL_VERSION, WIRE_SCHEMA_VERSION
from parley.workspace import queries
from parley.workspace.layout import Workspace
from parley.workspace.log import StoredEvent, encode_json
from parley.workspace.queries.coordination import count_coordination

GUEST_PASS_BYTES: Final = 16
FEED_PATH: Final = "/ws"


class Hub:
    """Made on the running event loop, after the workspace's database was prepared and the socket bound."""

    def __init__(
        self,
        workspace: Workspace,
        settings: Settings,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        tokens: TokenStore,
        in_flight: InFlight,
        instance_id: str,
        db_id: str,
        port: int,
        own_names: frozenset[str] = frozenset(),
        plugins: PluginSource | None = None,
        guests: tuple[Guest, ...] = (),
        stop: Callable[[str], None],
        token_changed: Callable[[], object],
        has_folder: Callable[[], bool],
    ) -> None:
        """``stop`` asks for a graceful stop, with the reason; ``token_changed`` is called after a rotation, and
        ``has_folder`` tells whether the workspace's folder is still the one that this hub was started in."""
        self.workspace = workspace
        self.settings = settings
        self.clock = clock
        self.log = log
        self.tokens = tokens
        self.instance_id = instance_id
        self.db_id = db_id
        self.port = port
        self.names = Names(own_names, frozenset(settings.hub.trusted_hosts))
        self.page = PageAccess(tokens, clock, db_id)
        self.failure: ParleyError | None = None
        """Why it can serve its database no longer, if so: damage, or files that are gone."""
        self.feeds_peak = 0
        self.metrics = Metrics(clock)
        self.in_flight = in_flight
        self.door = HubDoor(self)
        self._stop = stop
        self._token_changed = token_changed
        self._has_folder = has_folder
        self._feeds: set[FeedConnection] = set()
        self._started = self._used = clock.monotonic()
        writing = open_writer(workspace.db, synchronous=settings.hub.synchronous)
        self.checkpointer = Checkpointer(
            workspace.db,
            writing,
            clock,
            interval_seconds=settings.checkpoint.interval_seconds,
            wal_bytes_step=settings.checkpoint.wal_bytes,
            idle_seconds=settings.checkpoint.idle_seconds,
            wal_bytes_max=settings.trouble.wal_bytes_max,
            synchronous=settings.hub.synchronous,
        )
        self.store = Store(
            workspace.db,
            writing,
            clock=clock,
            queue_max=settings.hub.writer_queue_max,
            on_events=self._publish,
            on_corrupt=self._corrupt,
            on_lost=self._files_lost,
            on_death=self._writer_died,
        )
        self.checkpointer.writer = self.store.writer.writer
        self.feed = Feed(self.store.read(queries.latest_event_id), settings.websocket.queue_max)
        self.moves = Moves(self)
        self.derived = Derived(self, plugins)
        self.presence = Presence(self)
        self.sweeper = Sweeper(self)
        self.monitor = Monitor(self)
        self.monitor.look()
        self.checkpointer.start()
        self.guests = guests
        self.guest_pass = secrets.token_hex(GUEST_PASS_BYTES).encode()
        self.app = Shell(
            self,
            ENDPOINTS + tuple(each for guest in guests for each in guest_endpoints(guest)),
            self.door,
            log=log,
            metrics=self.metrics,
            metric_prefix="parley",
            headers=((b"x-instance-id", instance_id.encode()), (b"x-protocol-version", PROTOCOL_VERSION.encode())),
            logged=settings.log.requests,
            upgrades={FEED_PATH: self._open_feed},
        )
        self.spool = Spool(self)

    @property
    def uptime_seconds(self) -> int:
        return int(self.clock.monotonic() - self._started)

    @property
    def feeds_open(self) -> int:
        return len(self._feeds)

    @cached_property
    def openapi_json(self) -> bytes:
        return encode_json(openapi_document(ENDPOINTS, ABOUT))

    def health(self) -> Health:
        problems = self.monitor.problems
        return Health(
            "degraded" if problems else "ok",
            self.instance_id,
            self.db_id,
            WIRE_SCHEMA_VERSION,
            PROTOCOL_VERSION,
            os.getpid(),
            self.uptime_seconds,
            problems,
        )

    def status(self) -> Status:
        self.monitor.look()
        watch = self.monitor
        return Status(
            "degraded" if watch.problems else "ok",
            watch.problems,
            self.feed.latest,
            self.feeds_open,
            self.store.writer.writer.waiting,
            watch.db_bytes,
            watch.wal_bytes,
            watch.disk_free_bytes,
            round(self.checkpointer.waiting_seconds, 1),
            self.uptime_seconds,
            watch.last_minute,
            self.derived.work(),
            self.store.read(count_coordination),
        )

    def touch(self) -> None:
        """Somebody uses the hub; it is not idle."""
        self._used = self.clock.monotonic()

    def stop_if_idle(self) -> None:
        """Asks for a stop when nobody has used the hub for the configured time."""
        limit_ms = self.settings.hub.idle_shutdown_ms
        busy = not limit_ms or self._feeds or self.in_flight.count
        if not busy and (self.clock.monotonic() - self._used) * 1000 >= limit_ms:
            self._stop("idle")

    def _open_feed(self, visit: Visit, connections: Connections) -> FeedConnection:
        most = self.settings.websocket.connections_max
        if len(self._feeds) >= most:
            raise too_many("feeds", most)
        return FeedConnection(self, visit, connections)

    def feed_opened(self, connection: FeedConnection) -> None:
        self._feeds.add(connection)
        self.feeds_peak = max(self.feeds_peak, len(self._feeds))
        self.touch()

    def feed_closed(self, connection: FeedConnection, code: int) -> None:
        self._feeds.discard(connection)
        self.metrics.inc("parley_ws_closed_total", 1, str(code))
        self.touch()

    def agents_on_feeds(self) -> set[str]:
        """The agents whose feeds are open; each of them is listening, and so alive."""
        return {connection.agent for connection in self._feeds if connection.agent is not None}

    def close_feeds(self, code: int, reason: str) -> None:
        for connection in list(self._feeds):
            connection.close(code, reason)

    def end_session(self, session: bytes) -> None:
        """Closes the feeds of a browser that logs out, in whichever of its windows they are."""
        for connection in list(self._feeds):
            if connection.session == session:
                connection.close(4401, "Logged out")

    def rotate_token(self) -> None:
        """Writes a new token. The old one stays valid for the grace period; then feeds that it opened are closed.

        The sessions of the page that it signed end with it.
        """
        if not self._has_folder():
            raise lost_file(self.tokens.path)
        try:
            self.tokens.rotate()
        except OSError as error:
            raise ServiceUnavailable(f"The token could not be written: {error.strerror}", reason="io_error") from error
        self._take_over_token()

    def reload_token(self) -> None:
        """Takes over a token that somebody else wrote to the file, unless it is that of a successor in the folder."""
        if not self._has_folder():
            return
        reloaded = self.tokens.reload()
        for warning in reloaded.warnings:
            self.log.warning("token", problem=warning)
        if reloaded.changed:
            self._take_over_token()

    def _take_over_token(self) -> None:
        register_secret(self.tokens.current)
        self.log.info("token_rotated", grace_seconds=self.settings.hub.token_grace_seconds)
        try:
            self._token_changed()
        except StartupFailed as error:  # clients still find the token in its own file
            self.log.error("server_file_not_written", problem=str(error))
        loop = asyncio.get_running_loop()
        loop.call_later(self.settings.hub.token_grace_seconds + 0.05, self._close_outdated_feeds)

    def _close_outdated_feeds(self) -> None:
        for connection in list(self._feeds):
            connection.close_if_outdated()

    def _publish(self, events: list[StoredEvent], writes: int, seconds: float) -> None:
        self.feed.publish(events)
        self.derived.saw(events)
        self.metrics.observe("parley_write_batch_size", writes)
        self.metrics.observe("parley_commit_seconds", seconds)
        for event in events:
            self.metrics.inc("parley_events_total", 1, event.draft.name)

    def _corrupt(self, error: DatabaseCorrupt) -> None:
        """Marks the database, so that no hub starts on it, and stops serving it."""
        if self.failure is not None:
            return
        self.failure = error
        self.store.writer.refuse_with = error
        self.store.writer.writer.log_is_suspect = True
        self.log.error("database_corrupt", problem=str(error))
        self._stop("corrupt")
        try:
            self.workspace.suspect.write_text(f"{error}\n")
        except OSError as refused:  # the next start looks at the file itself
            self.log.error("suspect_not_written", problem=refused.strerror)

    def lose_files(self, lost: FilesLost) -> None:
        """Acknowledges nothing any more, and stops."""
        self.store.writer.writer.give_up(lost)

    def _files_lost(self, lost: FilesLost) -> None:
        if self.failure is None:
            self.failure = lost
            self.log.error("files_lost", problem=str(lost), path=lost.details["path"])
            self._stop("files_lost")

    def _writer_died(self, error: BaseException) -> None:
        self.log.error("writer_died", exc_info=error)
        self.store.writer.refuse_with = ServiceUnavailable("The writer has died", reason="writer_died")
        self._stop("writer_died")
