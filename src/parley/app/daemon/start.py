"""Starting the daemon, in this process or in one of its own, which reports through a pipe as a hub does."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final

from parley.app.detached import detach
from parley.app.garbage import look_seldom
from parley.core.daemon_settings import daemon_setting_specs
from parley.core.errors import InvalidInput
from parley.core.flags import Given, arguments, laid_over, setting_flags
from parley.daemon.config import load_daemon_settings
from parley.daemon.home import prepare_home
from parley.wire.daemon_home import HOME_VARIABLE, daemon_home

LOG_NAME: Final = "daemon.log"
_LOG_MODE: Final = 0o600
FLAGS: Final = setting_flags(daemon_setting_specs())
_PORT: Final = "ipc.http_port"
_NOTHING: Final[Given] = {}
_SOCKET_ALONE: Final = {"ipc.tcp_enabled": False}


def serve(
    given: Given,
    *,
    on_ready: Callable[[dict[str, Any]], None],
    log_to_file: bool = False,
    ephemeral: bool = False,
) -> int:
    """Serves in this process until it is told to stop, and returns its exit code. Raises what prevents the start."""
    from parley.daemon.lifecycle import DaemonOptions, run_daemon, wants_tcp
    from parley.serve.logs import configure

    home = daemon_home()
    settings = laid_over(load_daemon_settings(home.config), given)
    if _PORT in given and not wants_tcp(settings):
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
        return serve(_SOCKET_ALONE, on_ready=on_ready, ephemeral=True)


def start_detached(given: Given = _NOTHING) -> dict[str, Any]:
    """Starts a daemon in a session of its own; its announcement when it answers, or raises why it does not."""
    home = daemon_home()
    prepare_home(home)
    log = os.open(home.logs / LOG_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _LOG_MODE)
    command = ["daemon", "up", "--foreground", "--json", *arguments(FLAGS, given)]
    return detach("daemon", command, log, home.logs / LOG_NAME, {HOME_VARIABLE: str(home.root)})
