"""Making workspaces: by ``parley init``, and by ``parley up`` where there is none."""

import os
from pathlib import Path

from parley.core.clock import Clock, SystemClock, iso
from parley.core.errors import WorkspaceNotFound
from parley.hub.exclusive_access import workspace_alone
from parley.sqlite import close_quietly, open_writer
from parley.workspace import discovery
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.lost_database import refuse_lost_database
from parley.workspace.prepare import prepare


def find_or_make(folder: Path | None) -> tuple[Workspace, bool]:
    """The workspace in the named folder, or the nearest from here; where there is none, a new one. And if it is new."""
    named = folder or (Path(os.environ[discovery.VARIABLE]) if os.environ.get(discovery.VARIABLE) else None)
    try:
        return (discovery.discover(discovery.here()) if named is None else discovery.at(named)), False
    except WorkspaceNotFound:
        return discovery.create(named or discovery.here()), True


def make_workspace(folder: Path, clock: Clock | None = None) -> tuple[Workspace, bool]:
    """A workspace with a database in exactly this folder, and whether it was made now."""
    clock = clock or SystemClock()
    workspace = discovery.create(folder)
    if workspace.db.exists():
        return workspace, False
    settings = load_settings(workspace.config)
    with workspace_alone(workspace, iso(clock.now_ms())):
        refuse_lost_database(workspace)
        connection = open_writer(workspace.db)
        try:
            prepare(connection, workspace, clock=clock, fts=settings.search.fts)
        finally:
            close_quietly(connection)
    return workspace, True
