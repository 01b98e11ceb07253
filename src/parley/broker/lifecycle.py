"""A broker's life: lock, open the store, bind, say where it is, serve, drain, clean up.

A file is locked before it is opened and served by one process. A PostgreSQL database may be served by several, so there
is nothing to lock. A stop tells every daemon to come back later, commits what was accepted, and gives back what was
leased.
"""

import asyncio
import os
import secrets
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
from parley.broker.lost_store import mark_made, refuse_lost_store
from parley.broker.options import BrokerOptions
from parley.broker.rules.broker_key import make_broker_key
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
from parley.core.held_files import HeldFiles, held_alone
from parley.core.ids import new_uuid
from parley.core.metrics import BROKER_METRICS
from parley.core.writable import refuse_unwritable, unusable
from parley.serve import BoundSocket, DiskWatch, TokenStore, bind, check_bind, register_secret
from parley.serve.file_keeper import FileKeeper, KeptFile
from parley.serve.life import Life
from parley.serve.metrics import Metrics
from parley.serve.server import CONNECTIONS_MAX, HttpServer
from parley.sqlite import Checkpointer, FileWatch

FIRST_SLUG, FIRST_NAME = "home", "Home"
TOKEN_NAME: Final = "creation-token"
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
            refuse_lost_store(path)
            files.take(path)
        store = open_store(options, clock, instance)
        held.callback(store.close)
        if options.keeps_file:
            mark_made(Path(options.store), store.broker_id)
            store.call(forget_all_connections)
        key = sealing.public_key(store.call(lambda tx: make_broker_key(tx, secrets.token_bytes(32)))).hex()
        port, host = options.settings.server.port, options.settings.server.host
        bound = bind(address, port)
        held.callback(bound.socket.close)
        if bound.asked_port_taken:
            raise StartupFailed(f"Port {port} of {host} is taken", port=port)
        life = _BrokerLife(options, log, on_ready, clock, instance, store, bound, files, key)
        life.announcement = held.enter_context(announced(options.folder, life.instance))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(life.run())


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


class _BrokerLife(Life):
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
        key: str,
    ) -> None:
        tokens = TokenStore(options.folder / TOKEN_NAME, clock, 0)
        super().__init__(log, tokens, drain_seconds=options.settings.server.drain_seconds)
        self.announcement: KeptFile | None = None
        self._files = files
        self._key = key
        self._lost: FilesLost | None = None
        self._options = options
        self._on_ready = on_ready
        self._clock = clock
        self._store = store
        self._bound = bound
        self._instance = instance
        self._settings = options.settings
        place = Path(options.store).parent if options.keeps_file else options.folder
        self._disk = DiskWatch(place, options.settings.trouble.disk_free_bytes_min)
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

    def make(self) -> list[HttpServer]:
        options, store = self._options, self._store
        self._gate, self._checkpointer, self._watched = self._make_gate()
        self._metrics = metrics = Metrics(self._clock, BROKER_METRICS)
        setting = Setting(store.broker_id, self._instance, store.policy, sealing.verify, options.version)
        self._broker = broker = Broker(setting, self._gate, self._clock, metrics, self.log)
        broker.on_outdated = lambda: self.end("outdated")
        loop = asyncio.get_running_loop()
        store.listen(lambda heard: loop.call_soon_threadsafe(broker.on_signal, heard) and None)
        shell = broker_shell(Front(broker, self._http_settings()), self._clock, self.in_flight)
        most = BROKER_CONNECTIONS_MAX + CONNECTIONS_MAX
        return [HttpServer(shell, self._bound.socket, tls=_tls(options), connections_max=most)]

    async def begin(self) -> None:
        self.run_beside(self._broker.run_timers(), needed=True)
        self.run_beside(self._check_now_and_then(self._metrics))
        self.run_beside(self._watch_disk(self._metrics))
        self.run_beside(self._keeper(self._gate).run())

    async def announce(self) -> None:
        ready = await self._ready(self._gate)
        self.log.info("started", port=self._bound.port, instance_id=self._instance)
        self._on_ready(ready)

    async def fall_silent(self) -> None:
        try:
            await asyncio.wait_for(self._broker.stop(), self.drain_seconds)
        except TimeoutError:
            self.log.warning("drain_timed_out")

    async def give_back(self) -> None:
        await self._gate.stop()
        if self._checkpointer is not None:
            self._checkpointer.stop(timeout=self.drain_seconds)
        if self._watched is not None:
            self._watched.close()

    def outcome(self) -> Exit:
        return super().outcome() if self._lost is None else self._lost.exit_code

    async def _watch_disk(self, metrics: Metrics) -> None:
        """Tells of a disk that fills before it is full, once, and once that there is room again."""
        while True:
            changed = self._disk.look()
            disk, level, least = self._disk.seen
            metrics.set("parley_broker_disk_free_bytes", disk.free_bytes)
            metrics.set("parley_broker_disk_free_ratio", disk.free_ratio)
            if changed:
                report = {"ok": self.log.info, "low": self.log.warning, "full": self.log.error}[level]
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
            self.log.warning("check_failed", problem=str(found))
            return
        metrics.inc("parley_broker_checks_total", 1, "sound" if found.sound else "unsound")
        metrics.set("parley_broker_orphans", sum(each.times for each in found.orphans))
        metrics.set("parley_broker_audits_broken", len(found.broken_audits))
        metrics.set("parley_broker_rosters_broken", len(found.broken_rosters))
        for each in found.orphans:
            self.log.error("orphans_found", check=each.check, meaning=each.meaning, times=each.times)
        for slug, number in found.broken_audits.items():
            self.log.error("audit_broken", mesh=slug, number=number)
        for slug, n in found.broken_rosters.items():
            self.log.error("roster_broken", mesh=slug, n=n)

    def _keeper(self, gate: Gate) -> FileKeeper:
        """Looks after the files: what it holds, what it is announced by, and the creation token."""

        def lose(lost: FilesLost) -> None:
            if isinstance(gate, SqliteGate):
                gate.writer.writer.give_up(lost)

        keeper = FileKeeper(self._files, self.log, lose)
        keeper.keep(KeptFile(self.tokens.path, self.tokens.write_again))
        if self.announcement is not None:
            keeper.keep(self.announcement)
        return keeper

    def _make_gate(self) -> tuple[Gate, Checkpointer | None, FileWatch | None]:
        """The way to the store, and what looks after one that is a file."""
        store = self._store
        if not isinstance(store, SqliteStore):
            return LaneGate(store), None, None

        def lost(found: FilesLost) -> None:
            self._lost = found
            self.log.error("files_lost", problem=str(found), path=found.details["path"])
            self.end("files_lost")

        files = FileWatch(Path(self._options.store), store.connection)
        checkpointer = Checkpointer(
            Path(self._options.store), store.connection, self._clock, synchronous=self._settings.store.synchronous
        )
        gate = SqliteGate(store, files, lost)
        checkpointer.writer = gate.writer.writer
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
            creation_token_file=self._options.folder / TOKEN_NAME,
            owner_invite=None if founded is None else founded.invite,
        )

    def _http_settings(self) -> HttpSettings:
        server, options = self._settings.server, self._options
        return HttpSettings(
            self.tokens.current,
            server.open_creation,
            self._url,
            options.version,
            self._disk,
            options.keeps_file,
            server.trusted_proxy,
            self._key,
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
