"""A hub, a daemon, a broker and a broker with TLS, each a process that a user's command started."""

import json
import re
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.load.hub import Hub
from bench.load.process import ServerProcess
from parley.app.services import CI_VARIABLES
from parley.broker.options import FILE
from parley.broker.server import CONNECTIONS_MAX as BROKER_CONNECTIONS_MAX
from parley.core.settings import Settings
from parley.daemon.memberships import Memberships
from parley.serve.server import CONNECTIONS_MAX
from parley.sqlite import open_reader
from parley.wire.daemon_home import HOME_VARIABLE, DaemonHome
from tests.broker.test_server import certificate
from tests.conformance.shell.lines import Spoken
from tests.daemon.served_daemon import BOB, member

LAUNCHER = Path(__file__).with_name("launch.py")
_ADDRESS = re.compile(r'"url": "wss?://127\.0\.0\.1:(\d+)"')


class Limits(NamedTuple):
    """What a server is started with instead of its own limits."""

    silence_seconds: float
    connections_max: int
    careless: bool = False
    descriptors: int = 0


@dataclass
class Target(Spoken):
    """A server that is attacked."""

    process: ServerProcess
    fields: Callable[[str], dict[str, str]]
    """The body of a request that makes something of this name."""
    database: Path
    names: str
    """Asks the database for the names of all that was made."""
    connections_max: int
    """How many connections it holds at most."""
    public: tuple[str, ...] | None = None
    """Line and headers of a request that takes a body without a token, if there is one."""
    has_feed: bool = True
    tls: ssl.SSLContext | None = None

    def makes(self, name: str, *headers: str) -> bytes:
        """A whole request that makes something of this name, once however often it is sent."""
        body = json.dumps(self.fields(name)).encode()
        return self.post(f"Idempotency-Key: {name}", *headers, f"Content-Length: {len(body)}") + body

    def lists(self) -> bytes:
        """A whole request for what was made last."""
        return self.head(" ".join(self.closed), self.bearer)

    def made(self) -> set[str]:
        """The names of all that was made."""
        with closing(open_reader(self.database)) as reader:
            return {str(row[0]) for row in reader.execute(self.names)}


@contextmanager
def hub(folder: Path, limits: Limits | None) -> Iterator[Target]:
    def launch(place: Path) -> ServerProcess:
        return _serve(limits, ["up", "--json", "--workspace", str(place)], '"running"', place)

    with Hub(folder, launch=launch) as started:
        assert isinstance(started.process, ServerProcess)
        host = f"127.0.0.1:{started.port}"
        yield Target(
            "hub",
            started.port,
            host,
            started.token,
            "/health",
            ("GET", "/api/v1/channels"),
            "/api/v1/channels",
            started.process,
            lambda name: {"name": name},
            started.database,
            "SELECT name FROM channels",
            limits.connections_max if limits else CONNECTIONS_MAX + Settings().websocket.connections_max,
            ("POST /ui/login", f"Origin: http://{host}"),
        )


@contextmanager
def daemon(folder: Path, limits: Limits | None) -> Iterator[Target]:
    """Its broker is away, so that what it is told to send stays in its outbox."""
    home = DaemonHome(folder / "home")
    home.root.mkdir(mode=0o700, parents=True)
    home.root.joinpath("daemon.toml").write_text("[ipc]\ntcp_in_container = true\n")
    Memberships(home.memberships).put(member("team"))
    environment = {**dict.fromkeys(CI_VARIABLES, ""), HOME_VARIABLE: str(home.root)}
    with _serve(limits, ["daemon", "up", "--foreground", "--json"], '"pid"', folder, environment) as process:
        port = int(home.port_file.read_text())
        yield Target(
            "daemon",
            port,
            f"127.0.0.1:{port}",
            home.token.read_text().strip(),
            "/v1/health",
            ("GET", "/v1/outbox?limit=5"),
            "/v1/send",
            process,
            lambda name: {"to": BOB, "message": name},
            home.outbox,
            "SELECT client_message_id FROM outbox",
            limits.connections_max if limits else CONNECTIONS_MAX // 2,
            has_feed=False,
        )


@contextmanager
def broker(folder: Path, limits: Limits | None, *options: str, tls: ssl.SSLContext | None = None) -> Iterator[Target]:
    place = folder / "broker"
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["broker", "up", "--json", "--folder", str(place), "--port", "0", *options]
    with _serve(limits, arguments, '"url"', folder) as process:
        found = _ADDRESS.search("".join(process.output))
        assert found is not None
        yield Target(
            "broker" if tls is None else "broker_tls",
            int(found[1]),
            "localhost",
            (place / "creation-token").read_text().strip(),
            "/v1/health",
            ("GET", "/v1/meshes"),
            "/v1/meshes",
            process,
            lambda name: {"slug": name, "name": name},
            place / FILE,
            "SELECT slug FROM mesh",
            limits.connections_max if limits else BROKER_CONNECTIONS_MAX + CONNECTIONS_MAX,
            ("POST /v1/join",),
            tls=tls,
        )


@contextmanager
def broker_tls(folder: Path, limits: Limits | None) -> Iterator[Target]:
    folder.mkdir(parents=True)
    cert, private = certificate(folder)
    trusts = ssl.create_default_context(cafile=str(cert))
    with broker(folder, limits, "--tls-cert", str(cert), "--tls-key", str(private), tls=trusts) as target:
        yield target


SERVERS = {"hub": hub, "daemon": daemon, "broker": broker, "broker_tls": broker_tls}


def _serve(
    limits: Limits | None,
    arguments: list[str],
    ready: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> ServerProcess:
    program = ["-m", "parley"] if limits is None else [str(LAUNCHER), json.dumps(limits._asdict())]
    return ServerProcess(
        [sys.executable, "-P", *program, *arguments], ready=ready, folder=folder, environment=environment
    )
