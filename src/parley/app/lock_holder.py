"""Ending the process that holds a lock: asked first, so that it can finish what is under way, and killed when it has
not ended in time. The lock then tells whether it is really gone.
"""

import signal
from pathlib import Path
from typing import Final, NamedTuple

from parley.app.processes import ProcessHandle
from parley.core.errors import StartupFailed
from parley.core.instance_lock import Holder, probe

KILL_SECONDS: Final = 10.0
"""A killed process is gone at once unless the kernel holds it in a call to a dead disk."""


class Stopped(NamedTuple):
    """How the stop went. Without a pid nothing was running."""

    pid: int | None = None
    killed: bool = False


def stop_holder(lock: Path, timeout_seconds: float) -> Stopped:
    """Ends the process and returns when it has ended. Raises ``StartupFailed`` if it cannot be stopped."""
    holder = probe(lock)
    if holder is None:
        return Stopped()
    if holder.pid is None:
        raise StartupFailed(f"A process that does not say its number holds {lock}")
    killed = False
    try:
        with ProcessHandle(holder.pid) as process:
            if still_holds(lock, holder):
                process.send(signal.SIGTERM)
            killed = not process.wait(timeout_seconds)
            if killed:
                process.send(signal.SIGKILL)
                process.wait(KILL_SECONDS)
    except ProcessLookupError:
        pass
    if still_holds(lock, holder):
        raise StartupFailed(f"Process {holder.pid} still holds {lock}", pid=holder.pid)
    return Stopped(holder.pid, killed)


def still_holds(lock: Path, holder: Holder) -> bool:
    """Whether the same process has the lock."""
    now = probe(lock)
    return now is not None and now.pid == holder.pid
