"""Stopping the hub of a workspace: the process that holds its lock, whatever ``server.json`` says."""

from parley.app.lock_holder import Stopped, stop_holder
from parley.core.clock import SystemClock, iso
from parley.hub.exclusive_access import workspace_alone
from parley.workspace.layout import Workspace


def stop_hub(workspace: Workspace, timeout_seconds: float) -> Stopped:
    """Ends the hub and returns when it has ended. Raises ``StartupFailed`` if it cannot be stopped.

    Raises ``AgentlipRunning`` if the workspace is served by a hub that is not ours to stop.
    """
    stopped = stop_holder(workspace.lock, timeout_seconds)
    _remove_stale(workspace)
    return stopped


def _remove_stale(workspace: Workspace) -> None:
    """Removes the ``server.json`` that a killed hub left, unless the next hub is already there."""
    if not workspace.server_file.exists():
        return
    with workspace_alone(workspace, iso(SystemClock().now_ms())):
        workspace.server_file.unlink(missing_ok=True)
