"""Real daemons and real brokers in processes of their own, forked from one that has imported them already."""

import contextlib
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.load.process import NotReady
from parley.broker.lifecycle import Ready, run_broker
from parley.broker.options import BrokerOptions
from parley.broker.policy import Policy
from parley.core.broker_settings import BrokerSettings
from parley.core.daemon_settings import DaemonSettings, IpcTable, ReconnectTable
from parley.core.errors import ParleyError
from parley.core.flags import laid_over
from parley.daemon.identity import HostId
from parley.daemon.lifecycle import DaemonOptions, run_daemon
from parley.serve.logs import configure
from parley.wire.daemon_home import DaemonHome
from tests.campaign.forkserver import forkserver
from tests.campaign.mesh.deaths import Death, acknowledge_before_storing, arm

START_SECONDS = 60.0
POLICY = Policy(lease_ms=2_000, heartbeat_ms=2_000, poll_ms=2_000)
"""Short, so that what a dead broker of a shared database held is free again soon."""
SETTINGS = DaemonSettings(
    ipc=IpcTable(tcp_enabled=False), reconnect=ReconnectTable(initial_backoff_ms=20, max_backoff_ms=500)
)
HOST = HostId("simulated", "")
Before = Callable[[], None] | None
_context = forkserver("tests.campaign.mesh.processes")


class NodeProcess:
    """A daemon or a broker. It may be gone at any moment; whoever uses it notices, or asks ``wait``."""

    def __init__(self, before: Before, serve: Callable[..., None], *args: Any) -> None:
        report, theirs = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_live, args=(before, serve, theirs, *args))
        self._process.start()
        theirs.close()
        with report:
            try:
                said: dict[str, Any] = report.recv() if report.poll(START_SECONDS) else {"error": "not in time"}
            except EOFError:
                self._process.join()
                # A daemon answers before it says that it is ready, and may die at its point by then.
                died = self._process.exitcode == -signal.SIGKILL
                said = {} if died else {"error": "ended without a word"}
        if "error" in said:
            self.kill()
            raise NotReady(str(said))
        self.ready = said

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.exitcode

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        self._process.join(seconds)
        return not self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def stop(self) -> int:
        """Asks it to end, and waits."""
        self._process.terminate()
        self._process.join(START_SECONDS)
        self.kill()
        return self._process.exitcode or 0


def start_daemon(home: Path, death: Death | None = None, *, hasty: bool = False, before: Before = None) -> NodeProcess:
    """``hasty`` makes it a daemon that acknowledges what it has not stored; ``before`` is run in the process first."""
    return NodeProcess(before, _serve_daemon, home, death, hasty)


def start_broker(
    folder: Path, store: str, death: Death | None = None, policy: Policy = POLICY, *, before: Before = None
) -> NodeProcess:
    """A broker on a free port, which its ``ready`` tells."""
    return NodeProcess(before, _serve_broker, folder, store, death, policy)


def _live(before: Before, serve: Callable[..., None], report: Connection, *args: Any) -> None:
    if before is not None:
        before()
    with report:
        try:
            serve(report, *args)
        except ParleyError as error:
            with contextlib.suppress(OSError):  # nobody listens any more once it was ready
                report.send({"error": str(error), "details": repr(error.details), "exit_code": int(error.exit_code)})
            sys.exit(error.exit_code)


def _serve_daemon(report: Connection, home: Path, death: Death | None, hasty: bool) -> None:
    if hasty:
        acknowledge_before_storing()
    arm(death)
    with configure("info", home / "daemon.log") as log:
        sys.exit(run_daemon(DaemonHome(home), SETTINGS, log.logger, DaemonOptions(on_ready=report.send, host=HOST)))


def _serve_broker(report: Connection, folder: Path, store: str, death: Death | None, policy: Policy) -> None:
    arm(death)
    folder.mkdir(exist_ok=True)

    def ready(broker: Ready) -> None:
        report.send({"port": broker.port})

    with configure("info", folder / "broker.log") as log:
        sys.exit(
            run_broker(
                BrokerOptions(folder, laid_over(BrokerSettings(), {"store.address": store, "server.port": 0}), policy),
                log.logger,
                ready,
            )
        )
