"""A workspace whose database was lost: what lies beside it tells that there was one.

A start that found no database would make an empty one, and serve it as if nothing had ever been said. So it looks for
what only a workspace that had a database can have, and leaves the choice to a person.
"""

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from parley.core.errors import DatabaseCorrupt
from parley.workspace.layout import ADOPTED_NAME, Workspace


def refuse_lost_database(workspace: Workspace) -> None:
    """Raises ``DatabaseCorrupt`` if the database is gone or empty though there was one. The caller holds the lock."""
    if _is_there(workspace.db):
        return
    for lost in _places(workspace):
        marks = [str(mark) for mark in _marks(lost)]
        if marks:
            message = f"{lost.db} is gone or empty, though what lies beside it is not: {', '.join(marks)}"
            refusal = DatabaseCorrupt(message, path=str(lost.db), marks=marks)
            refusal.hint = _what_to_do(lost)
            raise refusal


def _places(workspace: Workspace) -> Iterator[Workspace]:
    """The folder that would be served, and that of Agentlip, which nobody finds any more without its database."""
    yield workspace
    if not workspace.adopted:
        yield Workspace(workspace.root, workspace.root / ADOPTED_NAME)


def _marks(workspace: Workspace) -> Iterator[Path]:
    if os.path.lexists(workspace.wal):
        yield workspace.wal
    if workspace.last_port.is_file():  # written once the first hub has prepared the database
        yield workspace.last_port
    for folder in (workspace.backups, workspace.archives):
        if any(_files_in(folder)):
            yield folder


def _what_to_do(workspace: Workspace) -> str:
    choice = (
        "Put the database back or restore a backup; to begin with an empty one, move what is named out of the folder."
    )
    newest = max(_files_in(workspace.backups), key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        return choice
    stale = [str(workspace.db.with_name(workspace.db.name + end)) for end in ("-wal", "-shm")]
    restore = f"{shlex.join(['rm', '-f', *stale])} && {shlex.join(['cp', str(newest), str(workspace.db)])}"
    return f"{choice} To restore the newest backup: {restore}"


def _files_in(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*") if path.is_file() and not path.name.startswith("."))


def _is_there(path: Path) -> bool:
    """Whether the file holds anything. Something else in its place is for others to refuse."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_size > 0 or not stat.S_ISREG(found.st_mode)
