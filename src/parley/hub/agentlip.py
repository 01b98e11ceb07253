"""Sharing a folder with Agentlip: never two writers on one database.

Agentlip does not know our lock, and its own lock is a file that it judges by asking the hub in ``server.json``. So an
adopted folder is refused while an Agentlip hub answers for it, and while ours runs there, the same file tells Agentlip
that the place is taken.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from parley.core.errors import AgentlipRunning
from parley.core.files import write_atomic
from parley.core.held_files import HeldFiles
from parley.hub.announced import answering
from parley.workspace.layout import Workspace

_LOCK_MODE: Final = 0o600


def refuse_live_agentlip(workspace: Workspace) -> None:
    """Raises ``AgentlipRunning`` if the hub in ``server.json`` answers. We hold our lock, so it is not one of ours."""
    if not workspace.adopted:
        return
    found = answering(workspace)
    if found is not None:
        pid = found.health.get("pid")
        raise AgentlipRunning(
            f"An Agentlip hub (process {pid}, port {found.server.port}) serves this workspace; stop it first",
            pid=pid,
            instance_id=found.health.get("instance_id"),
        )


@contextmanager
def agentlip_kept_out(workspace: Workspace, files: HeldFiles, started_at: str) -> Generator[None]:
    """Refuses a workspace that Agentlip serves, and holds the lock file that Agentlip looks for, however this ends.

    Without ``files`` in place, the folder has a successor's lock file in it.
    """
    refuse_live_agentlip(workspace)
    if not workspace.adopted:
        yield
        return
    lock = _lock(workspace)
    written = f"{os.getpid()}\n{started_at}\n".encode()
    write_atomic(lock, written, _LOCK_MODE)
    try:
        yield
    finally:
        with suppress(OSError):  # it must not hide why the hub ends
            if files.are_in_place() and lock.read_bytes() == written:
                lock.unlink()


def _lock(workspace: Workspace) -> Path:
    return workspace.lock.parent / "writer.lock"
