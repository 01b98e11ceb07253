"""Stopping the daemon: the process that holds its lock."""

import signal

from parley.app.processes import ProcessHandle
from parley.app.stop import KILL_SECONDS, Stopped
from parley.core.errors import StartupFailed
from parley.serve.lock import probe
from parley.wire.daemon_home import daemon_home


def stop_daemon(timeout_seconds: float) -> Stopped:
    """Ends the daemon and returns when it has ended. Raises ``StartupFailed`` if it cannot be stopped."""
    lock = daemon_home().lock
    holder = probe(lock)
    if holder is None:
        return Stopped()
    if holder.pid is None:
        raise StartupFailed(f"A process that does not say its number holds {lock}")
    killed = False
    try:
        with ProcessHandle(holder.pid) as process:
            now = probe(lock)
            if now is not None and now.pid == holder.pid:
                process.send(signal.SIGTERM)
            killed = not process.wait(timeout_seconds)
            if killed:
                process.send(signal.SIGKILL)
                process.wait(KILL_SECONDS)
    except ProcessLookupError:
        pass
    now = probe(lock)
    if now is not None and now.pid == holder.pid:
        raise StartupFailed(f"Process {holder.pid} still holds {lock}", pid=holder.pid)
    return Stopped(holder.pid, killed)
