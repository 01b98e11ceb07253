"""A hub's life: lock, prepare, bind, tell where it is, serve, drain, clean up.

The lock is taken before anything is read or written and held to the end, so two starts never meet in the database.
``server.json`` is written once the socket listens and removed at a clean stop; what a crash left behind is
overwritten. A stop refuses new work, lets what is in flight finish, closes the feeds with 1001, empties the log into
the database and removes ``server.json``.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec
import uvloop
from structlog.typing import FilteringBoundLogger

from parley.core.clock import Clock, SystemClock, iso
from parley.core.errors import DatabaseCorrupt, ParleyError
from parley.core.exits import Exit
from parley.core.files import write_atomic
from parley.core.ids import new_uuid
from parley.core.settings import Settings
from parley.hub.agentlip import agentlip_kept_out
from parley.hub.announced import refuse_announced
from parley.hub.derived.loading import PluginSource
from parley.hub.http.guest import Guest
from parley.hub.hub import Hub
from parley.hub.last_port import recall_port, remember_port
from parley.serve import BoundSocket, HeldFiles, TokenStore, bind, check_bind, register_secret
from parley.serve.file_keeper import FileKeeper, KeptFile
from parley.serve.server import CONNECTIONS_MAX, HttpServer
from parley.serve.writable import refuse_unwritable, unusable
from parley.sqlite import checkpoint_once, close_quietly, integrity_check, open_writer, translate
from parley.wire.server_file import ServerFile
from parley.workspace.layout import Workspace
from parley.workspace.prepare import Prepared, prepare
from parley.workspace.trust import parley_home

SERVER_FILE_MODE = 0o600


@dataclass(frozen=True)
class HubOptions:
    """What a start decides beyond the settings."""

    unsafe_network: bool = False
    on_ready: Callable[[ServerFile], None] = lambda server: None
    home: Path | None = None
    """Where the user's trust in plugins is kept; by default where ``parley trust`` keeps it."""
    guests: tuple[Guest, ...] = ()
    """Applications that the hub serves without knowing them."""


def run_hub(
    workspace: Workspace,
    settings: Settings,
    log: FilteringBoundLogger,
    options: HubOptions,
    clock: Clock | None = None,
) -> Exit:
    """Serves the workspace until it is told to stop. Raises a ``ParleyError`` when it cannot start."""
    clock = clock or SystemClock()
    instance_id = new_uuid()
    address = check_bind(settings.hub.host, unsafe_network=options.unsafe_network)
    started_at = iso(clock.now_ms())
    with HeldFiles(workspace.lock) as files, ExitStack() as held:
        files.acquire({"pid": os.getpid(), "instance_id": instance_id, "started_at": started_at})
        refuse_announced(workspace)
        held.enter_context(agentlip_kept_out(workspace, started_at))
        refuse_unwritable(workspace.written)
        files.take(workspace.db)
        prepared = prepare_database(workspace, settings, clock)
        for warning in prepared.warnings:
            log.warning("prepare", problem=warning)
        if prepared.change is not None:
            log.info("schema", change=prepared.change, version=prepared.schema, backup=prepared.backup)
        plugins = PluginSource(workspace, settings, options.home or parley_home())
        plugins.refuse_without_required(clock)
        bound = bind(address, settings.hub.port, preferred=recall_port(workspace.last_port))
        held.callback(bound.socket.close)
        if bound.asked_port_taken:
            log.warning("port_taken", asked=settings.hub.port, port=bound.port)
        problem = remember_port(workspace.last_port, bound.port)
        if problem is not None:
            log.warning("last_port_not_written", problem=problem)
        serving = _Serving(workspace, settings, log, options, clock, instance_id, prepared, bound, plugins, files)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serving.run())


def prepare_database(workspace: Workspace, settings: Settings, clock: Clock) -> Prepared:
    """Opens, checks and upgrades the database. The caller holds the lock. Raises ``DatabaseCorrupt`` for damage."""
    if workspace.suspect.exists():
        raise DatabaseCorrupt(f"An earlier run found {workspace.db} damaged")
    connection = open_writer(workspace.db, synchronous=settings.hub.synchronous)
    try:
        problems = integrity_check(connection, quick=True)
        if problems:
            raise DatabaseCorrupt(f"{workspace.db} is damaged: {problems[0]}", problems=problems)
        return prepare(connection, workspace, clock=clock, fts=settings.search.fts)
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        close_quietly(connection)


class _Serving:
    """From a prepared database and a bound socket to a clean end."""

    def __init__(
        self,
        workspace: Workspace,
        settings: Settings,
        log: FilteringBoundLogger,
        options: HubOptions,
        clock: Clock,
        instance_id: str,
        prepared: Prepared,
        bound: BoundSocket,
        plugins: PluginSource,
        files: HeldFiles,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._log = log
        self._options = options
        self._clock = clock
        self._instance_id = instance_id
        self._prepared = prepared
        self._bound = bound
        self._plugins = plugins
        self._files = files
        self._server_file = KeptFile(workspace.server_file, self._write_server_file, ours=True)
        self._started_at = iso(clock.now_ms())
        self._tokens = TokenStore(workspace.token, clock, settings.hub.token_grace_seconds)
        self._stopping = asyncio.Event()
        self._reason = ""

    async def run(self) -> Exit:
        for warning in self._tokens.load():
            self._log.warning("token", problem=warning)
        register_secret(self._tokens.current)
        hub = Hub(
            self._workspace,
            self._settings,
            clock=self._clock,
            log=self._log,
            tokens=self._tokens,
            instance_id=self._instance_id,
            db_id=self._prepared.db_id,
            port=self._bound.port,
            own_names=_own_names(self._settings.hub.host) if self._options.unsafe_network else frozenset(),
            plugins=self._plugins,
            guests=self._options.guests,
            stop=self._ask_to_stop,
            token_changed=self._server_file.write,
        )
        keeper = FileKeeper(self._files, self._log, hub.lose_files)
        feeds_max = self._settings.websocket.connections_max
        server = HttpServer(hub.app, self._bound.socket, connections_max=CONNECTIONS_MAX + feeds_max)
        watching = asyncio.create_task(hub.monitor.run())
        sweeping = asyncio.create_task(hub.sweeper.run())
        keeping: asyncio.Task[None] | None = None
        spooling: asyncio.Task[None] | None = None
        try:
            await hub.derived.start()
            await server.start()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self._ask_to_stop, signal.Signals(number).name)
            hub.spool.open()
            self._server_file.write()
            keeper.keep(self._server_file)
            keeping = asyncio.create_task(keeper.run())
            spooling = asyncio.create_task(hub.spool.run())
            resumed = hub.moves.resume()
            self._log.info("started", port=self._bound.port, instance_id=self._instance_id, moves_resumed=resumed)
            # Last: whoever is told finds all of it, the line in the log too.
            self._options.on_ready(self._announcement())
            stop = asyncio.create_task(self._stopping.wait())
            await asyncio.wait({stop, watching, sweeping}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            self._tell_of_failure(watching, sweeping)
        finally:
            for task in (keeping, spooling):
                if task is not None:
                    task.cancel()
            await self._end(hub, server, (watching, sweeping))
        if hub.failure is not None:
            return hub.failure.exit_code
        return Exit.OK if self._stopping.is_set() and hub.store.writer.writer.death is None else Exit.ERROR

    async def _end(
        self,
        hub: Hub,
        server: HttpServer,
        watching: "Sequence[asyncio.Task[None]]",
    ) -> None:
        self._log.info("stopping", reason=self._reason)
        hub.in_flight.close()
        if not await hub.in_flight.wait_empty(self._settings.hub.drain_seconds):
            self._log.warning("drain_timed_out", in_flight=hub.in_flight.count)
        await hub.spool.drain(self._settings.hub.drain_seconds)
        await hub.derived.stop()
        for task in watching:
            task.cancel()
        await hub.sweeper.stop()
        hub.close_feeds(1001, "Server shutting down")
        await server.stop(self._settings.hub.drain_seconds)
        await asyncio.gather(*watching, return_exceptions=True)
        for guest in hub.guests:
            await guest.aclose()
        drained = await hub.store.close(self._settings.hub.drain_seconds)
        hub.checkpointer.stop(timeout=self._settings.hub.drain_seconds)
        if hub.failure is None and drained:
            self._empty_log()
        self._remove_server_file()
        self._log.info("stopped", reason=self._reason, drained=drained)

    def _tell_of_failure(self, *tasks: "asyncio.Task[None]") -> None:
        """A part that ended by itself ends the hub; the log says why."""
        for task in tasks:
            error = task.exception() if task.done() else None
            if error is not None:
                self._reason = self._reason or "failed"
                self._log.error("hub_failed", exc_info=error)

    def _ask_to_stop(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._stopping.set()

    def _announcement(self) -> ServerFile:
        return ServerFile(
            self._instance_id,
            self._prepared.db_id,
            self._bound.port,
            self._bound.socket.getsockname()[0],
            self._tokens.current,
            os.getpid(),
            self._started_at,
            state_inode=self._workspace.state.stat().st_ino,
        )

    def _write_server_file(self) -> None:
        server = self._announcement()
        text = msgspec.json.format(msgspec.json.encode(server), indent=2) + b"\n"
        try:
            write_atomic(self._workspace.server_file, text, SERVER_FILE_MODE)
        except OSError as error:
            raise unusable(self._workspace.server_file, error) from error

    def _remove_server_file(self) -> None:
        try:
            self._workspace.server_file.unlink(missing_ok=True)
        except OSError as error:  # it must not hide why the hub ends
            self._log.warning("server_file_not_removed", problem=error.strerror)

    def _empty_log(self) -> None:
        try:
            connection = open_writer(self._workspace.db, synchronous=self._settings.hub.synchronous)
        except ParleyError as error:
            self._log.warning("checkpoint_failed", problem=str(error))
            return
        result = checkpoint_once(connection, "truncate")
        close_quietly(connection)
        if result.error is not None:
            self._log.warning("checkpoint_failed", problem=str(result.error))


def _own_names(host: str) -> frozenset[str]:
    """Names by which other machines may call this one, when a person opened it to the network."""
    name = socket.gethostname()
    found = {host, name, name.lower()}
    with suppress(OSError):
        found |= {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}
    return frozenset(found)
