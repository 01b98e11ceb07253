"""Stopping the hub of a workspace: the process that holds its lock, whatever ``server.json`` says.

It is asked first, so that it can answer the requests in flight and write its log back; only when it has not ended in
time is it killed. The lock then tells whether it is really gone.
"""

import signal
from pathlib import Path
from typing import Final, NamedTuple

from parley.app.processes import ProcessHandle
from parley.core.errors import StartupFailed
from parley.hub.agentlip import refuse_live_agentlip
from parley.serve.lock import Holder, InstanceLock, probe
from parley.workspace.layout import Workspace

KILL_SECONDS: Final = 10.0
"""A killed process is gone at once unless the kernel holds it in a call to a dead disk."""


class Stopped(NamedTuple):
    """How the stop went. Without a pid nothing was running."""

    pid: int | None = None
    killed: bool = False


def stop_hub(workspace: Workspace, timeout_seconds: float) -> Stopped:
    """Ends the hub and returns when it has ended. Raises ``StartupFailed`` if it cannot be stopped.

    Raises ``AgentlipRunning`` if the workspace is served by a hub that is not ours to stop.
    """
    holder = probe(workspace.lock)
    if holder is None:
        _remove_stale(workspace)
        return Stopped()
    if holder.pid is None:
        raise StartupFailed(f"A process that does not say its number holds {workspace.lock}")
    try:
        with ProcessHandle(holder.pid) as process:
            if _still_holds(workspace.lock, holder):
                process.send(signal.SIGTERM)
            killed = not process.wait(timeout_seconds)
            if killed:
                process.send(signal.SIGKILL)
                process.wait(KILL_SECONDS)
    except ProcessLookupError:
        killed = False
    if _still_holds(workspace.lock, holder):
        raise StartupFailed(f"Process {holder.pid} still holds {workspace.lock}", pid=holder.pid)
    _remove_stale(workspace)
    return Stopped(holder.pid, killed)


def _still_holds(lock_path: Path, holder: Holder) -> bool:
    now = probe(lock_path)
    return now is not None and now.pid == holder.pid


def _remove_stale(workspace: Workspace) -> None:
    """Removes the ``server.json`` that a killed hub left, unless the next hub is already there."""
    if not workspace.server_file.exists():
        return
    lock = InstanceLock(workspace.lock)
    lock.acquire({})
    with lock:
        refuse_live_agentlip(workspace)
        workspace.server_file.unlink(missing_ok=True)
