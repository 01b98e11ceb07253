"""A broker's life: lock, open the store, bind, say where it is, serve, drain, clean up.

A file is locked before it is opened and served by one process. A PostgreSQL database may be served by several, so there
is nothing to lock. A stop tells every daemon to come back later, commits what was accepted, and gives back what was
leased.
"""

import asyncio
import os
import secrets
import signal
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop
from structlog.typing import FilteringBoundLogger

from parley.broker.gate import Gate, LaneGate, SqliteGate
from parley.broker.http import Front, HttpSettings, broker_shell
from parley.broker.instances import Instance, announced, refuse_announced
from parley.broker.options import BrokerOptions
from parley.broker.rules.founding import FoundFirst, FoundMesh
from parley.broker.rules.presence import forget_all_connections
from parley.broker.server import CONNECTIONS_MAX as BROKER_CONNECTIONS_MAX
from parley.broker.server import Broker
from parley.broker.session import Setting
from parley.broker.sqlite_store import SqliteStore, open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core import sealing
from parley.core.broker_errors import BrokerRunning
from parley.core.clock import Clock, SystemClock, iso
from parley.core.errors import BindRefused, FilesLost, StartupFailed, WriterLockHeld
from parley.core.exits import Exit
from parley.core.ids import new_uuid
from parley.core.metrics import BROKER_METRICS
from parley.serve import BoundSocket, DiskWatch, HeldFiles, TokenStore, bind, check_bind, held_alone, register_secret
from parley.serve.file_keeper import FileKeeper, KeptFile
from parley.serve.metrics import Metrics
from parley.serve.server import CONNECTIONS_MAX, HttpServer
from parley.serve.writable import refuse_unwritable, unusable
from parley.sqlite import Checkpointer, FileWatch

FIRST_SLUG, FIRST_NAME = "home", "Home"
FIRST_CHECK_SECONDS: Final = 300.0
"""A start has better things to do than to look at all rows, and whoever restarts daily wants it done, too."""

DISK_SECONDS: Final = 10.0
"""How often the free space is looked at."""


@dataclass(frozen=True)
class Ready:
    """A broker that serves."""

    host: str
    port: int
    url: str
    broker_id: str
    instance_id: str
    creation_token_file: Path
    owner_invite: str | None
    """The invite to the first mesh, as long as nobody has joined one."""


def run_broker(
    options: BrokerOptions,
    log: FilteringBoundLogger,
    on_ready: Callable[[Ready], None],
    clock: Clock | None = None,
) -> Exit:
    """Serves until it is told to stop. Raises a ``ParleyError`` when it cannot start."""
    clock = clock or SystemClock()
    instance = new_uuid()
    address = _check_address(options)
    _make_folder(options.folder)
    with ExitStack() as held:
        files: HeldFiles | None = None
        if options.keeps_file:
            path = Path(options.store)
            refuse_unwritable(written(options.folder, path))
            files = held.enter_context(locked(path, instance, clock, folder=options.folder))
            files.take(path)
        store = open_store(options, clock, instance)
        held.callback(store.close)
        if options.keeps_file:
            store.call(forget_all_connections)
        port, host = options.settings.server.port, options.settings.server.host
        bound = bind(address, port)
        held.callback(bound.socket.close)
        if bound.asked_port_taken:
            raise StartupFailed(f"Port {port} of {host} is taken", port=port)
        serving = _Serving(options, log, on_ready, clock, instance, store, bound, files)
        serving.announcement = held.enter_context(announced(options.folder, serving.instance))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serving.run())


def open_store(options: BrokerOptions, clock: Clock, instance: str | None = None) -> BrokerStore:
    """The store that the options name."""
    if options.keeps_file:
        synchronous = options.settings.store.synchronous
        return open_sqlite_store(Path(options.store), clock, options.policy, synchronous=synchronous)
    try:
        from parley.broker.postgresql_store import PostgresqlStore
    except ImportError as error:
        missing = StartupFailed("PostgreSQL needs a package that is not installed")
        missing.hint = "Install it with `pip install 'parley-mesh[postgres]'`."
        raise missing from error
    register_secret(options.store)
    return PostgresqlStore(options.store, clock, options.policy, instance=instance, serving=instance is not None)


@contextmanager
def locked(path: Path, instance: str, clock: Clock, folder: Path | None = None) -> Generator[HeldFiles]:
    """Holds a broker's file and its lock. Raises ``BrokerRunning`` when somebody else does, or is announced to."""
    with ExitStack() as held:
        try:
            started_at = iso(clock.now_ms())
            files = held.enter_context(held_alone(lock_path(path), path, instance_id=instance, started_at=started_at))
            refuse_announced(folder or path.parent, path)
        except WriterLockHeld as refusal:
            raise BrokerRunning(refusal.message, **refusal.details) from refusal
        yield files


def lock_path(store: Path) -> Path:
    """The lock file of a broker's file."""
    return store.with_name(f"{store.name}.lock")


def written(folder: Path, store: Path) -> tuple[Path, ...]:
    """What a broker on this file writes; what is not there is made."""
    files = (store.with_name(store.name + end) for end in ("", "-wal", "-shm", ".lock"))
    return (folder, store.parent, *files)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error


def _check_address(options: BrokerOptions) -> str:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise StartupFailed("TLS needs both --tls-cert and --tls-key")
    server = options.settings.server
    guarded = options.tls_cert is not None or server.trusted_proxy or server.insecure
    try:
        return check_bind(server.host, unsafe_network=guarded)
    except BindRefused as refusal:
        refusal.hint = (
            "Give it --tls-cert and --tls-key, or --trusted-proxy behind a proxy that speaks TLS, or --insecure if"
            " whoever is on the network may see who writes to whom."
        )
        raise


class _Serving:
    """From an open store and a bound socket to a clean end."""

    def __init__(
        self,
        options: BrokerOptions,
        log: FilteringBoundLogger,
        on_ready: Callable[[Ready], None],
        clock: Clock,
        instance: str,
        store: BrokerStore,
        bound: BoundSocket,
        files: HeldFiles | None,
    ) -> None:
        self.announcement: KeptFile | None = None
        self._files = files
        self._lost: FilesLost | None = None
        self._options = options
        self._log = log
        self._on_ready = on_ready
        self._clock = clock
        self._store = store
        self._bound = bound
        self._instance = instance
        self._stopping = asyncio.Event()
        self._settings = options.settings
        place = Path(options.store).parent if options.keeps_file else options.folder
        self._disk = DiskWatch(place, options.settings.trouble.disk_free_bytes_min)
        self._tokens = TokenStore(options.folder / "creation-token", clock, 0)
        scheme = "wss" if options.tls_cert is not None else "ws"
        server = options.settings.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        self._url = server.public_url or f"{scheme}://{host}:{bound.port}"

    @property
    def instance(self) -> Instance:
        """What whoever looks for running brokers is told."""
        return Instance(
            pid=os.getpid(),
            instance_id=self._instance,
            started_at=iso(self._clock.now_ms()),
            host=self._settings.server.host,
            port=self._bound.port,
            url=self._url,
            tls=self._options.tls_cert is not None,
            store="sqlite" if self._options.keeps_file else "postgresql",
            tls_cert="" if self._options.tls_cert is None else str(self._options.tls_cert.absolute()),
            path=str(Path(self._options.store).absolute()) if self._options.keeps_file else "",
        )

    async def run(self) -> Exit:
        for warning in self._tokens.load():
            self._log.warning("creation_token", problem=warning)
        register_secret(self._tokens.current)
        options, store = self._options, self._store
        ended = asyncio.Event()
        gate, checkpointer, files = self._gate(ended)
        metrics = Metrics(self._clock, BROKER_METRICS)
        setting = Setting(store.broker_id, self._instance, store.policy, sealing.verify, options.version)
        broker = Broker(setting, gate, self._clock, metrics, self._log)
        loop = asyncio.get_running_loop()
        store.listen(lambda heard: loop.call_soon_threadsafe(broker.on_signal, heard) and None)
        shell = broker_shell(Front(broker, self._http_settings()), self._clock)
        server = HttpServer(
            shell, self._bound.socket, tls=_tls(options), connections_max=BROKER_CONNECTIONS_MAX + CONNECTIONS_MAX
        )
        timing = asyncio.create_task(broker.run_timers())
        watching = [
            asyncio.create_task(self._check_now_and_then(metrics)),
            asyncio.create_task(self._watch_disk(metrics)),
            asyncio.create_task(self._keeper(gate).run()),
        ]
        try:
            await server.start()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stopping.set)
            ready = await self._ready(gate)
            self._log.info("started", port=self._bound.port, instance_id=self._instance)
            self._on_ready(ready)
            stop = asyncio.create_task(self._stopping.wait())
            outdated = asyncio.create_task(broker.outdated.wait())
            lost = asyncio.create_task(ended.wait())
            await asyncio.wait({stop, timing, outdated, lost}, return_when=asyncio.FIRST_COMPLETED)
            for waiting in (stop, outdated, lost):
                waiting.cancel()
        finally:
            for task in watching:
                task.cancel()
            shell.door.in_flight.close()
            await self._end(broker, gate, checkpointer, server, timing)
            if files is not None:
                files.close()
        if self._lost is not None:
            return self._lost.exit_code
        return Exit.OK if self._stopping.is_set() else Exit.ERROR

    async def _watch_disk(self, metrics: Metrics) -> None:
        """Tells of a disk that fills before it is full, once, and once that there is room again."""
        while True:
            changed = self._disk.look()
            disk, level, least = self._disk.seen
            metrics.set("parley_broker_disk_free_bytes", disk.free_bytes)
            metrics.set("parley_broker_disk_free_ratio", disk.free_ratio)
            if changed:
                report = {"ok": self._log.info, "low": self._log.warning, "full": self._log.error}[level]
                name = "disk_freed" if level == "ok" else f"disk_{level}"
                report(name, free_bytes=disk.free_bytes, disk_free_bytes_min=least)
            await asyncio.sleep(DISK_SECONDS)

    async def _check_now_and_then(self, metrics: Metrics) -> None:
        period = self._settings.check.every_hours * 3600
        if not period:
            return
        await asyncio.sleep(min(period, FIRST_CHECK_SECONDS))
        while True:
            await self._check(metrics)
            await asyncio.sleep(period)

    async def _check(self, metrics: Metrics) -> None:
        """Looks at all rows over a connection of its own, on a thread that nobody waits for at the end."""
        from parley.broker.backup import Checked, check

        loop = asyncio.get_running_loop()
        looked: asyncio.Future[Checked | Exception] = loop.create_future()

        def look() -> None:
            try:
                found: Checked | Exception = check(self._options.store, self._clock, pages=False)
            except Exception as error:
                found = error
            with suppress(RuntimeError):  # the loop is closed: the broker has ended meanwhile
                loop.call_soon_threadsafe(lambda: looked.cancelled() or looked.set_result(found))

        threading.Thread(target=look, name="parley-check", daemon=True).start()
        found = await looked
        if isinstance(found, Exception):
            metrics.inc("parley_broker_checks_total", 1, "failed")
            self._log.warning("check_failed", problem=str(found))
            return
        metrics.inc("parley_broker_checks_total", 1, "sound" if found.sound else "unsound")
        metrics.set("parley_broker_orphans", sum(each.times for each in found.orphans))
        metrics.set("parley_broker_audits_broken", len(found.broken_audits))
        for each in found.orphans:
            self._log.error("orphans_found", check=each.check, meaning=each.meaning, times=each.times)
        for slug, number in found.broken_audits.items():
            self._log.error("audit_broken", mesh=slug, number=number)

    def _keeper(self, gate: Gate) -> FileKeeper:
        """Looks after the files: what it holds, what it is announced by, and the creation token."""

        def lose(lost: FilesLost) -> None:
            if isinstance(gate, SqliteGate):
                gate.writer.writer.give_up(lost)

        keeper = FileKeeper(self._files, self._log, lose)
        keeper.keep(KeptFile(self._tokens.path, self._tokens.restore))
        if self.announcement is not None:
            keeper.keep(self.announcement)
        return keeper

    def _gate(self, ended: asyncio.Event) -> tuple[Gate, Checkpointer | None, FileWatch | None]:
        """The way to the store. ``ended`` is set when the files of one that is a file are lost."""
        store = self._store
        if not isinstance(store, SqliteStore):
            return LaneGate(store), None, None

        def lost(found: FilesLost) -> None:
            self._lost = found
            self._log.error("files_lost", problem=str(found), path=found.details["path"])
            ended.set()

        files = FileWatch(Path(self._options.store), store.connection)
        checkpointer = Checkpointer(
            Path(self._options.store), store.connection, self._clock, synchronous=self._settings.store.synchronous
        )
        gate = SqliteGate(store, files, lost)
        checkpointer.between_commits = gate.writer.writer.between_commits
        checkpointer.start()
        return gate, checkpointer, files

    async def _ready(self, gate: Gate) -> Ready:
        found = FoundMesh(FIRST_SLUG, FIRST_NAME, self._url, self._store.policy, secrets.token_bytes(32))
        founded = await gate.run(FoundFirst(found))
        return Ready(
            host=self._settings.server.host,
            port=self._bound.port,
            url=self._url,
            broker_id=self._store.broker_id,
            instance_id=self._instance,
            creation_token_file=self._options.folder / "creation-token",
            owner_invite=None if founded is None else founded.invite,
        )

    async def _end(
        self,
        broker: Broker,
        gate: Gate,
        checkpointer: Checkpointer | None,
        server: HttpServer,
        timing: "asyncio.Task[None]",
    ) -> None:
        error = timing.exception() if timing.done() and not timing.cancelled() else None
        if error is not None:
            self._log.error("broker_failed", exc_info=error)
        timing.cancel()
        try:
            await asyncio.wait_for(broker.stop(), self._settings.server.drain_seconds)
        except TimeoutError:
            self._log.warning("drain_timed_out")
        await server.stop(self._settings.server.drain_seconds)
        await asyncio.gather(timing, return_exceptions=True)
        await gate.stop()
        if checkpointer is not None:
            checkpointer.stop(timeout=self._settings.server.drain_seconds)
        self._log.info("stopped")

    def _http_settings(self) -> HttpSettings:
        server, options = self._settings.server, self._options
        return HttpSettings(
            self._tokens.current,
            server.open_creation,
            self._url,
            options.version,
            self._disk,
            options.keeps_file,
            server.trusted_proxy,
        )


def _tls(options: BrokerOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise StartupFailed(f"The certificate {options.tls_cert} cannot be used: {error}") from error
    return context
