"""A hub's life: lock, prepare, bind, tell where it is, serve, drain, clean up.

The lock is taken before anything is read or written and held to the end, so two starts never meet in the database.
``server.json`` is written once the socket listens and removed at a clean stop; what a crash left behind is
overwritten, and a hub that has lost its files leaves what is there. A stop refuses new work, lets what is in flight
finish, closes the feeds with 1001, empties the log into the database and removes ``server.json``.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec
import uvloop
from structlog.typing import FilteringBoundLogger

from parley.core import untrusted_json
from parley.core.clock import Clock, SystemClock, iso
from parley.core.errors import DatabaseCorrupt, FilesLost, ParleyError
from parley.core.exits import Exit
from parley.core.files import write_atomic
from parley.core.held_files import HeldFiles
from parley.core.ids import new_uuid
from parley.core.settings import Settings
from parley.core.writable import refuse_unwritable, unusable
from parley.hub.agentlip import agentlip_kept_out
from parley.hub.announced import refuse_announced
from parley.hub.derived.loading import PluginSource
from parley.hub.http.guest import Guest
from parley.hub.hub import Hub
from parley.hub.last_port import recall_port, remember_port
from parley.serve import BoundSocket, TokenStore, bind, check_bind
from parley.serve.file_keeper import FileKeeper, KeptFile
from parley.serve.life import Life
from parley.serve.server import CONNECTIONS_MAX, HttpServer
from parley.sqlite import checkpoint_once, close_quietly, integrity_check, open_writer, translate
from parley.wire.server_file import ServerFile
from parley.workspace.layout import Workspace
from parley.workspace.lost_database import refuse_lost_database
from parley.workspace.prepare import Prepared, prepare
from parley.workspace.reading import refuse_foreign
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
        held.enter_context(agentlip_kept_out(workspace, files, started_at))
        refuse_unwritable(workspace.written)
        refuse_lost_database(workspace)
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
        life = _HubLife(workspace, settings, log, options, clock, instance_id, prepared, bound, plugins, files)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(life.run())


def prepare_database(workspace: Workspace, settings: Settings, clock: Clock) -> Prepared:
    """Opens, checks and upgrades the database. The caller holds the lock. Raises ``DatabaseCorrupt`` for damage."""
    if workspace.suspect.exists():
        raise DatabaseCorrupt(f"An earlier run found {workspace.db} damaged")
    refuse_foreign(workspace.db)  # before it is opened for writing, which alone may change the file
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


class _HubLife(Life):
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
        tokens = TokenStore(workspace.token, clock, settings.hub.token_grace_seconds)
        super().__init__(log, tokens, drain_seconds=settings.hub.drain_seconds)
        self._workspace = workspace
        self._settings = settings
        self._options = options
        self._clock = clock
        self._instance_id = instance_id
        self._prepared = prepared
        self._bound = bound
        self._plugins = plugins
        self._files = files
        self._server_file = KeptFile(workspace.server_file, self._write_server_file)
        self._started_at = iso(clock.now_ms())
        self._spooling: asyncio.Task[None] | None = None

    def make(self) -> list[HttpServer]:
        self._hub = hub = Hub(
            self._workspace,
            self._settings,
            clock=self._clock,
            log=self.log,
            tokens=self.tokens,
            in_flight=self.in_flight,
            instance_id=self._instance_id,
            db_id=self._prepared.db_id,
            port=self._bound.port,
            own_names=_own_names(self._settings.hub.host) if self._options.unsafe_network else frozenset(),
            plugins=self._plugins,
            guests=self._options.guests,
            stop=self.stop,
            token_changed=self._announce_token,
            has_folder=self._files.are_in_place,
        )
        self.run_beside(hub.monitor.run(), needed=True)
        self.run_beside(hub.sweeper.run(), needed=True)
        feeds_max = self._settings.websocket.connections_max
        return [HttpServer(hub.app, self._bound.socket, connections_max=CONNECTIONS_MAX + feeds_max)]

    async def begin(self) -> None:
        await self._hub.derived.start()

    async def announce(self) -> None:
        hub = self._hub
        hub.spool.open()
        self._server_file.write()
        keeper = FileKeeper(self._files, self.log, hub.lose_files)
        keeper.keep(self._server_file)
        self.run_beside(keeper.run())
        self._spooling = asyncio.create_task(hub.spool.run())
        resumed = hub.moves.resume()
        self.log.info("started", port=self._bound.port, instance_id=self._instance_id, moves_resumed=resumed)
        self._options.on_ready(self._announcement())  # last: whoever is told finds all of it, the line in the log too

    async def fall_silent(self) -> None:
        if self._spooling is not None:
            self._spooling.cancel()
        await self._hub.spool.drain(self.drain_seconds)
        await self._hub.derived.stop()
        await self._hub.sweeper.stop()
        self._hub.close_feeds(1001, "Server shutting down")

    async def give_back(self) -> None:
        hub = self._hub
        for guest in hub.guests:
            await guest.aclose()
        drained = await hub.store.close(self.drain_seconds)
        hub.checkpointer.stop(timeout=self.drain_seconds)
        if hub.failure is None and drained:
            self._empty_log()
        self._remove_server_file()

    def outcome(self) -> Exit:
        if self._hub.failure is not None:
            return self._hub.failure.exit_code
        return super().outcome() if self._hub.store.writer.writer.death is None else Exit.ERROR

    def _announcement(self) -> ServerFile:
        return ServerFile(
            self._instance_id,
            self._prepared.db_id,
            self._bound.port,
            self._bound.socket.getsockname()[0],
            self.tokens.current,
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

    def _announce_token(self) -> None:
        """Announces the hub with its new token."""
        self._server_file.write()

    def _remove_server_file(self) -> None:
        if isinstance(self._hub.failure, FilesLost) or not self._files.are_in_place():
            return  # another hub may serve the folder, and have announced itself there
        path = self._workspace.server_file
        try:
            if _announced_in(path) == self._instance_id:
                path.unlink()
        except OSError as error:  # it must not hide why the hub ends
            self.log.warning("server_file_not_removed", problem=error.strerror)

    def _empty_log(self) -> None:
        try:
            connection = open_writer(self._workspace.db, synchronous=self._settings.hub.synchronous)
        except ParleyError as error:
            self.log.warning("checkpoint_failed", problem=str(error))
            return
        result = checkpoint_once(connection, "truncate")
        close_quietly(connection)
        if result.error is not None:
            self.log.warning("checkpoint_failed", problem=str(result.error))


def _announced_in(path: Path) -> str | None:
    """The instance that the file announces, if it announces one."""
    try:
        return untrusted_json.decode(path.read_bytes(), ServerFile).instance_id
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _own_names(host: str) -> frozenset[str]:
    """Names by which other machines may call this one, when a person opened it to the network."""
    name = socket.gethostname()
    found = {host, name, name.lower()}
    with suppress(OSError):
        found |= {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}
    return frozenset(found)
