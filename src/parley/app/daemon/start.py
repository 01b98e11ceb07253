"""Starting the daemon, in this process or in one of its own, which reports through a pipe as a hub does."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from parley.app.detached import detach
from parley.app.garbage import look_seldom
from parley.app.services import in_ci
from parley.core.daemon_errors import DaemonNotRunning
from parley.core.daemon_settings import daemon_setting_specs
from parley.core.errors import InvalidInput
from parley.core.flags import Given, arguments, laid_over, setting_flags
from parley.daemon.config import load_daemon_settings
from parley.daemon.home import prepare_home
from parley.wire.daemon_home import HOME_VARIABLE, DaemonHome, daemon_home

LOG_NAME: Final = "daemon.log"
FLAGS: Final = setting_flags(daemon_setting_specs())
_PORT: Final = "ipc.http_port"
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
        on_ready({**announcement, "ephemeral": ephemeral})

    with configure(settings.daemon.log_level, destination) as log:
        return run_daemon(home, settings, log.logger, DaemonOptions(ready, ephemeral=ephemeral))


def serve_ephemeral(
    *, on_ready: Callable[[dict[str, Any]], None], ttl_seconds: float | None, detached: bool = False
) -> int:
    """Serves from a folder of its own that is gone at the end: the keys never outlive the process, nor the members.

    Whoever detached the process has made the folder, and given it as the daemon's.
    """
    folder = daemon_home().root if detached else _ephemeral_folder()
    try:
        os.environ[HOME_VARIABLE] = str(folder)
        if ttl_seconds is not None:
            signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGTERM))
            signal.setitimer(signal.ITIMER_REAL, ttl_seconds)
        return serve(_SOCKET_ALONE, on_ready=on_ready, ephemeral=True, log_to_file=detached)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_detached(given: Given | None = None) -> dict[str, Any]:
    """Starts a daemon in a session of its own; its announcement when it answers, or raises why it does not.

    Without settings nobody has asked for it: another command needs one. On a build machine that is
    ``DaemonNotRunning``, since a daemon that lasts there is only for those who say so.
    """
    if given is None and not os.environ.get(HOME_VARIABLE) and in_ci():
        refusal = DaemonNotRunning(
            "No daemon is running, and on a build machine (CI) none is started by another command"
        )
        refusal.hint = (
            f"Start one with `parley daemon up` and set {HOME_VARIABLE} to the folder that it prints,"
            " or set it to a folder of your own first."
        )
        raise refusal
    return _detached(daemon_home(), "--persistent", *arguments(FLAGS, given or {}))


def start_detached_ephemeral(*, ttl_hours: float | None) -> dict[str, Any]:
    """The same for a daemon whose folder is gone at its end."""
    folder = _ephemeral_folder()
    try:
        return _detached(DaemonHome(folder), "--ephemeral", *([] if ttl_hours is None else ["--ttl", str(ttl_hours)]))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _detached(home: DaemonHome, *flags: str) -> dict[str, Any]:
    prepare_home(home)
    command = ["daemon", "up", "--foreground", "--json", *flags]
    return detach("daemon", command, home.logs / LOG_NAME, {HOME_VARIABLE: str(home.root)})


def _ephemeral_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="parley-"))
