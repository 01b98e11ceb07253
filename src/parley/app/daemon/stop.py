"""Stopping the daemon: the process that holds its lock."""

from parley.app.lock_holder import Stopped, stop_holder
from parley.wire.daemon_home import daemon_home


def stop_daemon(timeout_seconds: float) -> Stopped:
    """Ends the daemon and returns when it has ended. Raises ``StartupFailed`` if it cannot be stopped."""
    return stop_holder(daemon_home().lock, timeout_seconds)
