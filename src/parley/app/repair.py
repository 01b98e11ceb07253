"""Repairing a workspace: what can be put right without touching what was said.

Only modes are changed while a hub runs. Everything else happens under the hub's lock: stale files go, the log is
merged, indexes are built anew, the file is rewritten. A database that is damaged is copied as it is before anything is
tried, and the mark that keeps hubs from serving it is removed only when it is found sound afterwards. A database that
a newer Parley wrote, or something else did, is left as it is.
"""

import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from parley.app.doctor import leftovers
from parley.core.clock import Clock, iso, stamp
from parley.core.errors import AgentlipRunning, HubRunning, ParleyError, WriterLockHeld
from parley.core.files import PRIVATE_MODE
from parley.hub.exclusive_access import workspace_alone
from parley.serve.token import unusable_because
from parley.sqlite import (
    CheckpointResult,
    backup_name,
    checkpoint_once,
    close_quietly,
    foreign_key_check,
    integrity_check,
    open_writer,
    translate,
)
from parley.workspace.layout import Workspace
from parley.workspace.queries.search import has_index
from parley.workspace.reading import open_reading_file, refuse_foreign

FOLDER_MODE: Final = 0o700
OTHERS_WRITE: Final = 0o022


def repair(workspace: Workspace, clock: Clock) -> list[str]:
    """Repairs what can be repaired and says what was done. Raises ``HubRunning`` after the modes if a hub runs."""
    done = list(fix_modes(workspace))
    try:
        with workspace_alone(workspace, iso(clock.now_ms())):
            done += _set_token_aside(workspace, clock)
            done += _remove_stale(workspace)
            done += _rebuild(workspace, clock)
    except AgentlipRunning:
        raise
    except WriterLockHeld as held:
        raise HubRunning(
            "A hub is running; only the modes of files were looked at", pid=held.details.get("pid"), repairs=done
        ) from held
    return done


def fix_modes(workspace: Workspace) -> Iterator[str]:
    """Takes away what other users may do with the token, the announcement and the data."""
    data = (workspace.db, workspace.wal, workspace.db.with_name(f"{workspace.db.name}-shm"))
    for path in (workspace.token, workspace.server_file, *data):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) != PRIVATE_MODE:
            path.chmod(PRIVATE_MODE)
            yield f"{path.name} has mode 0600 now"
    if stat.S_IMODE(workspace.state.stat().st_mode) & OTHERS_WRITE:
        workspace.state.chmod(FOLDER_MODE)
        yield f"{workspace.state.name} has mode 0700 now"


def checkpoint(workspace: Workspace) -> str:
    """Merges the write-ahead log into the database, beside a running hub too.

    Raises what the disk says, or ``SchemaTooNew``.
    """
    refuse_foreign(workspace.db)
    connection = open_writer(workspace.db)
    try:
        result = checkpoint_once(connection, "truncate")
    finally:
        close_quietly(connection)
    return _told(result)


def restorable_backups(workspace: Workspace) -> list[Path]:
    """Backups that are sound, the newest first."""
    candidates = [path for path in workspace.backups.glob("*") if path.is_file() and not path.name.startswith(".")]
    return [path for path in sorted(candidates, key=lambda path: path.stat().st_mtime, reverse=True) if _is_sound(path)]


def _told(result: CheckpointResult) -> str:
    if result.error is not None:
        raise result.error
    if not result.complete:
        return "A reader or writer was in the way; the write-ahead log was merged in part"
    return "The write-ahead log is merged and empty"


def _set_token_aside(workspace: Workspace, clock: Clock) -> Iterator[str]:
    if unusable_because(workspace.token) is not None:
        kept = workspace.token.with_name(f"{workspace.token.name}.unusable-{stamp(clock.now_ms())}")
        workspace.token.rename(kept)
        yield f"Set the token file aside as {kept.name}; the next start writes a new one"


def _remove_stale(workspace: Workspace) -> Iterator[str]:
    for path in leftovers(workspace):
        path.unlink()
        yield f"Removed {path.relative_to(workspace.state)}"
    if workspace.server_file.exists():
        workspace.server_file.unlink()
        yield f"Removed {workspace.server_file.name}, which no running hub had written"


def _rebuild(workspace: Workspace, clock: Clock) -> Iterator[str]:
    if not workspace.db.exists():
        return
    try:
        refuse_foreign(workspace.db)
    except ParleyError as refusal:
        yield f"Left the database as it is: {refusal.message}"
        return
    if workspace.suspect.exists() or not _is_sound(workspace.db):
        yield f"Kept the database as it was in {_copy_as_it_is(workspace, clock)}"
    connection: apsw.Connection | None = None
    try:
        connection = open_writer(workspace.db)
        yield _told(checkpoint_once(connection, "truncate"))
        connection.execute("REINDEX")
        if has_index(connection):
            connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
        yield "Built the indexes anew"
        connection.execute("VACUUM")
        checkpoint_once(connection, "truncate")
        yield "Rewrote the file without its free space"
        sound = not integrity_check(connection) and not foreign_key_check(connection)
    except (apsw.Error, ParleyError) as error:
        reason = translate(error).message if isinstance(error, apsw.Error) else error.message
        yield f"Could not go on: {reason}"
        sound = False
    finally:
        close_quietly(connection)
    if sound and workspace.suspect.exists():
        workspace.suspect.unlink()
        yield f"The database is sound; removed {workspace.suspect.name}"
    if not sound:
        yield from _how_to_restore(workspace)


def _copy_as_it_is(workspace: Workspace, clock: Clock) -> Path:
    """Byte for byte, with its log, since a copy by SQLite would need a database that can be read."""
    workspace.backups.mkdir(mode=FOLDER_MODE, exist_ok=True)
    target = workspace.backups / backup_name(workspace.db, "before-repair", clock.now_ms()).name
    for source, copy in ((workspace.db, target), (workspace.wal, target.with_name(f"{target.name}-wal"))):
        if source.exists():
            shutil.copyfile(source, copy)
            copy.chmod(PRIVATE_MODE)
    return target


def _how_to_restore(workspace: Workspace) -> Iterator[str]:
    yield "The database is damaged beyond what can be rebuilt"
    backups = restorable_backups(workspace)
    if not backups:
        yield f"There is no sound backup in {workspace.backups}"
        return
    stale = [f"{workspace.db}-wal", f"{workspace.db}-shm", str(workspace.suspect)]
    restore = f"{shlex.join(['rm', '-f', *stale])} && {shlex.join(['cp', str(backups[0]), str(workspace.db)])}"
    yield f"To restore the newest sound backup: {restore}"


def _is_sound(path: Path) -> bool:
    try:
        with open_reading_file(path) as reading:
            return not integrity_check(reading.connection)
    except (ParleyError, apsw.Error):
        return False
