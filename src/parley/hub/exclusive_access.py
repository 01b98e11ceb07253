"""A workspace for one process alone, for commands that need its hub stopped."""

from collections.abc import Generator
from contextlib import contextmanager

from parley.core.held_files import held_alone
from parley.hub.agentlip import refuse_live_agentlip
from parley.hub.announced import refuse_announced
from parley.workspace.layout import Workspace


@contextmanager
def workspace_alone(workspace: Workspace, started_at: str) -> Generator[None]:
    """Holds the lock and the database, if there is one. Raises ``WriterLockHeld`` while a hub serves the workspace."""
    with held_alone(workspace.lock, workspace.db, started_at=started_at):
        refuse_announced(workspace)
        refuse_live_agentlip(workspace)
        yield
