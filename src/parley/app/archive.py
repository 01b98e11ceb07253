"""Archiving the old part of a workspace, under its hub's lock."""

from typing import Any

from parley.core.clock import Clock, SystemClock, iso
from parley.core.errors import AgentlipRunning, HubRunning, WriterLockHeld
from parley.hub.archive import archive_before
from parley.hub.exclusive_access import workspace_alone
from parley.sqlite import close_quietly, open_writer
from parley.workspace.layout import Workspace
from parley.workspace.lost_database import refuse_lost_database
from parley.workspace.reading import refuse_foreign


def archive(workspace: Workspace, before_ms: int, clock: Clock | None = None) -> dict[str, Any]:
    """Moves what happened before the time to a sealed file. Raises ``HubRunning`` while a hub serves the workspace."""
    clock = clock or SystemClock()
    now_ms = clock.now_ms()
    try:
        with workspace_alone(workspace, iso(now_ms)):
            refuse_lost_database(workspace)
            refuse_foreign(workspace.db)  # before it is opened for writing, which alone may change the file
            connection = open_writer(workspace.db)
            try:
                report = archive_before(connection, workspace, before_ms=before_ms, now_ms=now_ms)
            finally:
                close_quietly(connection)
    except AgentlipRunning:
        raise
    except WriterLockHeld as held:
        raise HubRunning(f"{workspace.root} is being served", pid=held.details.get("pid")) from held
    return {
        "archive": None if report.path is None else str(report.path),
        "sha256": report.sha256 or None,
        "up_to_event_id": report.up_to_event_id,
        "events": report.events,
        "messages": report.messages,
    }
