"""A daemon's life: lock, look at the machine, open, listen, tell where it is, serve, end.

The lock is taken before anything is read or written and held to the end. The socket is made inside a folder that only
its owner can enter; what a crash left behind is replaced. A start that is refused for a reason that another try cannot
change ends with a code between 20 and 29, on which a service is not restarted.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from structlog.typing import FilteringBoundLogger

from parley.core.clock import Clock, SystemClock, iso
from parley.core.daemon_errors import DaemonRunning, HostMismatch
from parley.core.daemon_settings import DaemonSettings
from parley.core.errors import WriterLockHeld
from parley.core.exits import Exit
from parley.core.files import write_atomic
from parley.core.held_files import HeldFiles
from parley.core.ids import new_uuid
from parley.core.writable import refuse_unwritable
from parley.daemon.daemon import Daemon
from parley.daemon.home import prepare_home
from parley.daemon.http.door import DaemonDoor, Transport, refusal
from parley.daemon.http.table import ENDPOINTS
from parley.daemon.identity import HostId, judge_host, this_host, write_record
from parley.daemon.leaving import leave_all
from parley.daemon.unix_socket import listen_unix, refuse_listening
from parley.serve import BoundSocket, RateLimiter, TokenStore, bind, register_secret
from parley.serve.file_keeper import FileKeeper, KeptFile
from parley.serve.life import Life
from parley.serve.server import CONNECTIONS_MAX, HttpServer
from parley.serve.shell import Shell
from parley.wire.daemon_home import DaemonHome

DRAIN_SECONDS = 10.0
TRY_SECONDS = 5.0
"""How long a start waits to learn whether its brokers still take it, before it says that it runs."""
_MARKS = (".dockerenv", "run/.containerenv")
_RUNTIMES = ("docker", "kubepods", "containerd")


@dataclass(frozen=True)
class DaemonOptions:
    """What a start decides beyond the settings."""

    on_ready: Callable[[dict[str, Any]], None] = lambda announcement: None
    host: HostId | None = None
    """Which machine this is; looked up when it is left out."""
    ephemeral: bool = False
    """Whether its keys end with it, so that it must leave its meshes."""


def run_daemon(
    home: DaemonHome,
    settings: DaemonSettings,
    log: FilteringBoundLogger,
    options: DaemonOptions,
    clock: Clock | None = None,
) -> Exit:
    """Serves until it is told to stop. Raises a ``ParleyError`` when it cannot start, or when every mesh is over."""
    clock = clock or SystemClock()
    prepare_home(home)
    instance_id = new_uuid()
    with HeldFiles(home.lock) as files, ExitStack() as held:
        try:
            files.acquire({"pid": os.getpid(), "instance_id": instance_id, "started_at": iso(clock.now_ms())})
            refuse_listening(home.socket)
            refuse_unwritable(home.written)
            files.take(home.outbox, home.inbox)
        except WriterLockHeld as held_by:
            raise DaemonRunning(held_by.message, **held_by.details) from held_by
        fingerprint = check_host(home, settings, log, clock, options.host)
        unix = listen_unix(home.socket)
        held.callback(_remove, files, home.socket)
        held.callback(unix.close)
        tcp = bind("127.0.0.1", settings.ipc.http_port) if wants_tcp(settings) else None
        if tcp is not None:
            held.callback(tcp.socket.close)
            held.callback(_remove, files, home.port_file)
        life = _DaemonLife(home, settings, log, options, clock, instance_id, fingerprint, unix, tcp, files)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(life.run())


def check_host(
    home: DaemonHome, settings: DaemonSettings, log: FilteringBoundLogger, clock: Clock, host: HostId | None = None
) -> str:
    """The machine's fingerprint, once it may run here. Raises ``HostMismatch``."""
    host = host or this_host(settings.clone.host_id)
    try:
        stored: bytes | None = home.host_fingerprint.read_bytes()
    except FileNotFoundError:
        stored = None
    judged = judge_host(stored, host)
    if judged.write:
        write_record(home.host_fingerprint, host, iso(clock.now_ms()))
    if not host.host_id and not host.stable_mac:
        log.warning("fingerprint_unavailable", problem="this machine has neither an id nor a network card")
    if judged.verdict in ("mismatch", "unavailable"):
        if settings.clone.policy == "refuse":
            raise HostMismatch(f"{home.root} was made on another machine: {judged.reason}", reason=judged.verdict)
        if settings.clone.policy == "warn":
            log.warning("host_mismatch", reason=judged.reason)
    return host.fingerprint


def wants_tcp(settings: DaemonSettings) -> bool:
    """Whether to listen on loopback. In a container neighbours may share it, so there it must be asked for."""
    return settings.ipc.tcp_enabled and (settings.ipc.tcp_in_container or not in_container(Path("/"), os.environ))


def in_container(root: Path, environment: Mapping[str, str]) -> bool:
    """Whether this is a container, by what runtimes leave in the file system and in the environment."""
    if "KUBERNETES_SERVICE_HOST" in environment or environment.get("CONTAINER") == "1":
        return True
    if any((root / mark).exists() for mark in _MARKS):
        return True
    try:
        groups = (root / "proc/1/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(name in groups for name in _RUNTIMES)


class _DaemonLife(Life):
    """From bound sockets to a clean end."""

    def __init__(
        self,
        home: DaemonHome,
        settings: DaemonSettings,
        log: FilteringBoundLogger,
        options: DaemonOptions,
        clock: Clock,
        instance_id: str,
        fingerprint: str,
        unix: socket.socket,
        tcp: BoundSocket | None,
        files: HeldFiles,
    ) -> None:
        tokens = TokenStore(home.token, clock, settings.daemon.token_grace_seconds)
        super().__init__(log, tokens, drain_seconds=DRAIN_SECONDS)
        self._home = home
        self._settings = settings
        self._options = options
        self._clock = clock
        self._instance_id = instance_id
        self._fingerprint = fingerprint
        self._unix = unix
        self._tcp = tcp
        self._files = files
        self._listening: asyncio.Task[None] | None = None

    def make(self) -> list[HttpServer]:
        self._daemon = daemon = Daemon(
            self._home,
            self._settings,
            clock=self._clock,
            log=self.log,
            host_fingerprint=self._fingerprint,
            instance_id=self._instance_id,
        )
        self._files.take(self._home.outbox, self._home.inbox)  # an inbox that was lost is a new file
        daemon.ephemeral = self._options.ephemeral
        daemon.port = None if self._tcp is None else self._tcp.port
        if self._tcp is None and self._settings.ipc.tcp_enabled:
            self.log.info("port_left_out", why="this is a container; ipc.tcp_in_container opens the port all the same")
        sockets = [self._unix, *([] if self._tcp is None else [self._tcp.socket])]
        servers = [
            HttpServer(shell, listening, connections_max=CONNECTIONS_MAX // len(sockets))
            for shell, listening in zip(self._shells(daemon), sockets, strict=True)
        ]
        self.run_beside(self._watch_token())
        self._keeper = self._file_keeper(daemon, servers[0])
        self.run_beside(self._keeper.run())
        self.run_beside(self._until_ended(daemon))
        return servers

    async def begin(self) -> None:
        await self._daemon.start()

    async def announce(self) -> None:
        daemon = self._daemon
        await daemon.tried(TRY_SECONDS)
        if daemon.refusal is not None:
            raise daemon.refusal
        self.log.info("daemon_started", instance_id=self._instance_id, meshes=len(daemon.meshes))
        self._options.on_ready(self._announcement(daemon))

    async def fall_silent(self) -> None:
        self._daemon.feed.close()

    async def give_back(self) -> None:
        if self._options.ephemeral:
            await leave_all(self._daemon)
        await self._daemon.stop()
        self._keeper.look_last()

    def outcome(self) -> Exit:
        if self._daemon.lost is not None:
            raise self._daemon.lost
        if self._daemon.refusal is not None and not self.asked_to_stop:
            raise self._daemon.refusal
        return super().outcome()

    async def _until_ended(self, daemon: Daemon) -> None:
        await daemon.ended.wait()
        self.end("ended")

    def _file_keeper(self, daemon: Daemon, server: HttpServer) -> FileKeeper:
        """Looks after the files: what it holds, where it listens, and who it is."""
        keeper = FileKeeper(self._files, self.log, daemon.lose_files)
        home, tcp = self._home, self._tcp

        def listen_again() -> None:
            self._listening = asyncio.create_task(server.listen_on(listen_unix(home.socket)))

        members, replaced = daemon.memberships, daemon.archive
        keeper.keep(
            KeptFile(home.socket, listen_again),
            KeptFile(home.memberships, members.save, wanted=lambda: bool(members.all()), stays=True),
            KeptFile(home.key_archive, replaced.save, wanted=lambda: bool(replaced), stays=True),
        )
        if tcp is not None:
            text = f"{tcp.port}\n".encode()
            port = KeptFile(home.port_file, lambda: write_atomic(home.port_file, text, 0o644, durable=False))
            port.write()
            keeper.keep(port)
        return keeper

    def _shells(self, daemon: Daemon) -> list[Shell[Daemon]]:
        rate = self._settings.ipc.rate_per_second
        limiter, strangers = RateLimiter(rate, rate, self._clock), RateLimiter(rate, rate, self._clock)

        def heed(settings: DaemonSettings) -> None:
            for each in (limiter, strangers):
                each.limit(settings.ipc.rate_per_second, settings.ipc.rate_per_second)
            self.tokens.grace_seconds = settings.daemon.token_grace_seconds

        daemon.on_settings = heed
        transports: list[tuple[Transport, int]] = [("unix", 0)]
        if self._tcp is not None:
            transports.append(("tcp", self._tcp.port))
        return [
            daemon_shell(
                daemon,
                DaemonDoor(
                    daemon,
                    transport,
                    self.tokens,
                    in_flight=self.in_flight,
                    limiter=limiter,
                    strangers=strangers,
                    port=port,
                ),
            )
            for transport, port in transports
        ]

    async def _watch_token(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            reloaded = self.tokens.reload()
            for warning in reloaded.warnings:
                self.log.warning("token", problem=warning)
            if reloaded.changed:
                register_secret(self.tokens.current)
                self.log.info("token_rotated")

    def _announcement(self, daemon: Daemon) -> dict[str, Any]:
        return {
            "status": "running",
            "pid": os.getpid(),
            "instance_id": self._instance_id,
            "home": str(self._home.root),
            "socket": str(self._home.socket),
            "port": None if self._tcp is None else self._tcp.port,
            "meshes": [mesh.slug for mesh in daemon.meshes.values() if mesh.runner.ended is None],
            "ended": [
                {"mesh": mesh.slug, **msgspec.to_builtins(mesh.membership.ended)}
                for mesh in daemon.meshes.values()
                if mesh.runner.ended is not None
            ],
        }


def daemon_shell(daemon: Daemon, door: DaemonDoor) -> Shell[Daemon]:
    """The daemon's API behind the door of one transport."""
    return Shell(
        daemon,
        ENDPOINTS,
        door,
        log=daemon.log,
        metrics=daemon.metrics,
        metric_prefix="parley_daemon",
        headers=((b"x-instance-id", daemon.instance_id.encode()),),
        refusal=refusal,
    )


def _remove(files: HeldFiles, path: Path) -> None:
    """Takes back what it told others by. In a folder that is no longer its own, that may be another daemon's."""
    with suppress(OSError):
        if files.are_in_place():
            path.unlink(missing_ok=True)
