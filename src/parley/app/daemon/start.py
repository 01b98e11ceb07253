"""Starting the daemon, in this process or in one of its own, which reports through a pipe as a hub does."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from parley.app.detached import detach
from parley.app.garbage import look_seldom
from parley.core.daemon_settings import DaemonSettings
from parley.core.errors import InvalidInput
from parley.daemon.config import load_daemon_settings
from parley.daemon.home import prepare_home
from parley.wire.daemon_home import HOME_VARIABLE, DaemonHome, daemon_home

LOG_NAME: Final = "daemon.log"
_LOG_MODE: Final = 0o600


def settings_of(home: DaemonHome, *, no_tcp: bool = False, port: int | None = None) -> DaemonSettings:
    """``daemon.toml`` with the flags laid over it. Raises ``ConfigInvalid``."""
    settings = load_daemon_settings(home.config)
    ipc = replace(settings.ipc, tcp_enabled=settings.ipc.tcp_enabled and not no_tcp)
    return replace(settings, ipc=ipc if port is None else replace(ipc, http_port=port))


def serve(
    *,
    on_ready: Callable[[dict[str, Any]], None],
    no_tcp: bool = False,
    port: int | None = None,
    log_to_file: bool = False,
    ephemeral: bool = False,
) -> int:
    """Serves in this process until it is told to stop, and returns its exit code. Raises what prevents the start."""
    from parley.daemon.lifecycle import DaemonOptions, run_daemon, wants_tcp
    from parley.serve.logs import configure

    home = daemon_home()
    settings = settings_of(home, no_tcp=no_tcp, port=port)
    if port is not None and not wants_tcp(settings):
        raise InvalidInput(
            "No port is opened: --no-tcp or ipc.tcp_enabled says so, or this is a container, where"
            " ipc.tcp_in_container must allow it",
            field="port",
        )
    prepare_home(home)
    destination = home.logs / LOG_NAME if log_to_file else sys.stderr.buffer

    def ready(announcement: dict[str, Any]) -> None:
        look_seldom()
        on_ready(announcement)

    with configure(settings.daemon.log_level, destination) as log:
        return run_daemon(home, settings, log.logger, DaemonOptions(ready, ephemeral=ephemeral))


def serve_ephemeral(*, on_ready: Callable[[dict[str, Any]], None], ttl_seconds: float | None) -> int:
    """Serves from a folder of its own that is gone at the end: the keys never outlive the process, nor the members."""
    with tempfile.TemporaryDirectory(prefix="parley-") as folder:
        os.environ[HOME_VARIABLE] = folder
        if ttl_seconds is not None:
            signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGTERM))
            signal.setitimer(signal.ITIMER_REAL, ttl_seconds)
        return serve(on_ready=on_ready, no_tcp=True, ephemeral=True)


def start_detached(*, no_tcp: bool = False, port: int | None = None) -> dict[str, Any]:
    """Starts a daemon in a session of its own; its announcement when it answers, or raises why it does not."""
    home = daemon_home()
    prepare_home(home)
    log = os.open(home.logs / LOG_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _LOG_MODE)
    flags = ["--no-tcp"] * no_tcp + ([] if port is None else ["--port", str(port)])
    arguments = ["daemon", "up", "--foreground", "--json", *flags]
    return detach("daemon", arguments, log, home.logs / LOG_NAME, {HOME_VARIABLE: str(home.root)})
