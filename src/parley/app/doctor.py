"""Examining a workspace: what its files and its database say, and whether the hub they speak of is really there.

Nothing that was said is changed here. Each finding says in words what was found and what to do; ``repair`` does what
can be done.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from parley.app.health import ask_health, read_server_file
from parley.app.plugins import check_plugins
from parley.app.processes import pid_is_alive
from parley.core.errors import AgentlipRunning, ParleyError
from parley.core.exits import Exit
from parley.core.files import PRIVATE_MODE
from parley.core.instance_lock import Holder, probe
from parley.core.writable import unwritable
from parley.hub.agentlip import refuse_live_agentlip
from parley.serve.token import unusable_because
from parley.sqlite import checkpoint_once, close_quietly, open_writer
from parley.wire.server_file import WIRE_SCHEMA_VERSION, ServerFile
from parley.workspace.checks import Check, check_workspace
from parley.workspace.discovery import foreign_config_notice
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading, refuse_foreign

DAMAGE: Final = frozenset({"integrity", "suspect", "database"})
"""The checks whose failure means that the database is damaged."""
FOREIGN_LOCK_NAME: Final = "writer.lock"
"""Agentlip's lock, a file whose existence is the lock; a crash leaves it behind."""


def examine(workspace: Workspace) -> list[Check]:
    """Every check, those that need a server's view after those of the files."""
    return [
        *check_workspace(workspace),
        check_writable(workspace),
        *check_checkpoint(workspace),
        check_token(workspace),
        *check_serving(workspace),
        *check_plugins(workspace),
    ]


def check_writable(workspace: Workspace) -> Check:
    """Whether a hub could write what it must; it does not start otherwise."""
    closed = unwritable(workspace.written)
    if not closed:
        return Check("writable", "ok", "All that a hub writes can be written")
    names = ", ".join(str(path.relative_to(workspace.root)) for path in closed)
    return Check("writable", "error", f"Cannot be written: {names}; no hub starts", "Check their owner and mode.")


def check_checkpoint(workspace: Workspace) -> Iterator[Check]:
    """Whether the write-ahead log can be merged. It is tried, since nothing else tells; nobody has to wait for it."""
    if not workspace.db.is_file() or not os.access(workspace.db, os.W_OK) or workspace.suspect.exists():
        return
    try:
        refuse_foreign(workspace.db)
        connection = open_writer(workspace.db)
    except ParleyError:
        return  # the checks of the database have told it
    try:
        result = checkpoint_once(connection, "passive")
    finally:
        close_quietly(connection)
    if result.error is not None:
        yield Check("checkpoint", "error", f"The log cannot be merged: {result.error}", "Check the disk.")
    elif not result.complete:
        left = result.log_frames - result.moved_frames
        fix = "Look for a reader that stays open; `parley doctor --checkpoint` tries again."
        yield Check("checkpoint", "warn", f"{left} of {result.log_frames} pages of the log could not be merged", fix)
    else:
        yield Check("checkpoint", "ok", "All of the log is merged")


def check_serving(workspace: Workspace) -> Iterator[Check]:
    """The hub, its announcement, its lock, and what crashes left behind."""
    holder = probe(workspace.lock)
    agentlip = _live_agentlip(workspace) if holder is None else None
    hint = read_server_file(workspace)
    yield check_lock(holder)
    if agentlip is not None:
        yield Check("server", "warn", agentlip.message, agentlip.hint)
    elif hint.problem is not None:
        yield Check("server_file", "error", f"{workspace.server_file.name} {hint.problem}", _REPAIR)
    elif hint.server is None:
        yield _without_server_file(holder)
    else:
        yield check_server_file(workspace, hint.server, holder)
        yield check_health(hint.server, holder)
    yield check_leftovers(workspace, in_use=holder is not None or agentlip is not None)
    notice = foreign_config_notice(workspace)
    if notice is not None:
        yield Check("foreign_config", "warn", notice, "See docs/compatibility.md for which setting is which.")


_REPAIR: Final = "Run `parley doctor --repair`."


def check_token(workspace: Workspace) -> Check:
    """Whether a start would take the token file."""
    problem = unusable_because(workspace.token)
    if problem is None:
        return Check("token", "ok", "The token file can be used, or the next start writes one")
    fix = "Run `parley doctor --repair`, which sets it aside; the next start writes a new one."
    return Check("token", "error", f"{workspace.token.name} {problem}; no hub starts with it", fix)


def check_lock(holder: Holder | None) -> Check:
    """Who holds the workspace. A lock of ours cannot be stale: the kernel frees it with its holder."""
    if holder is None:
        return Check("lock", "ok", "Nobody holds the workspace")
    return Check("lock", "ok", f"Process {holder.pid} holds the workspace since {holder.started_at}")


def check_server_file(workspace: Workspace, server: ServerFile, holder: Holder | None) -> Check:
    """Whether ``server.json`` is private and speaks of this database and of a living process."""
    mode = stat.S_IMODE(workspace.server_file.stat().st_mode)
    if mode != PRIVATE_MODE:
        return Check("server_file", "error", f"{workspace.server_file.name} has mode {mode:04o}, not 0600", _REPAIR)
    db_id = _db_id(workspace)
    if db_id is not None and server.db_id != db_id:
        return Check("server_file", "error", f"It is about database {server.db_id}, this is {db_id}", _REPAIR)
    if holder is None or not pid_is_alive(server.pid):
        return Check("server_file", "warn", f"It is about process {server.pid}, which no longer serves", _REPAIR)
    return Check("server_file", "ok", "Valid, mode 0600, about the process that holds the workspace")


def check_health(server: ServerFile, holder: Holder | None) -> Check:
    """Whether the hub answers, and is the one that was announced."""
    answer = ask_health(server)
    if isinstance(answer, str):
        if holder is None:
            return Check("server", "ok", "Not running")
        return Check(
            "server", "error", f"Process {holder.pid} runs but {answer}", "Restart it: `parley down`, `parley up`."
        )
    if answer.instance_id != server.instance_id:
        return Check("server", "error", f"Another instance answers at {server.base_url}: {answer.instance_id}", _REPAIR)
    if answer.status != "ok":
        return Check("server", "warn", f"Running but degraded: {'; '.join(answer.problems)}", "See the hub's log.")
    return Check("server", "ok", f"Running (instance {answer.instance_id}, process {answer.pid}, port {server.port})")


def check_leftovers(workspace: Workspace, *, in_use: bool) -> Check:
    """Files that a crash or an older program left."""
    found = [] if in_use else leftovers(workspace)
    if found:
        names = ", ".join(str(path.relative_to(workspace.state)) for path in found)
        return Check("leftovers", "warn", f"Left behind by a crash: {names}", _REPAIR)
    return Check("leftovers", "ok", "No orphaned files")


def leftovers(workspace: Workspace) -> list[Path]:
    """Temporary files, and Agentlip's lock. Only meaningful while no hub of either kind runs."""
    folders = (workspace.state, workspace.backups, workspace.archives)
    found = [path for folder in folders if folder.is_dir() for path in sorted(folder.glob(".*.tmp"))]
    foreign_lock = workspace.lock.with_name(FOREIGN_LOCK_NAME)
    return [*found, foreign_lock] if foreign_lock.exists() else found


def summary(workspace: Workspace, checks: list[Check], repairs: list[str]) -> dict[str, Any]:
    """What ``parley doctor --json`` prints."""
    errors = sum(check.status == "error" for check in checks)
    try:
        with open_reading(workspace) as reading:
            db_id, schema = reading.db_id, reading.schema
    except ParleyError:
        db_id, schema = None, None
    return {
        "status": "error" if errors else "ok",
        "workspace_root": str(workspace.root),
        "db_path": str(workspace.db),
        "db_id": db_id,
        "schema_version": None if schema is None else WIRE_SCHEMA_VERSION,
        "parley_schema": schema,
        "query_only": schema is not None,
        "checks": [check._asdict() for check in checks],
        "warnings": sum(check.status == "warn" for check in checks),
        "errors": errors,
        "repairs": repairs,
    }


def exit_code(checks: list[Check]) -> Exit:
    """0 with warnings or none, 20 for a newer schema, 21 for a damaged database, else 1."""
    failed = {check.name for check in checks if check.status == "error"}
    if "schema" in failed:
        return Exit.SCHEMA_TOO_NEW
    return Exit.OK if not failed else Exit.CORRUPT if failed & DAMAGE else Exit.ERROR


def _without_server_file(holder: Holder | None) -> Check:
    if holder is None:
        return Check("server", "ok", "Not running")
    return Check(
        "server",
        "warn",
        f"Process {holder.pid} holds the workspace but has not announced itself",
        "If it is not just starting: `parley down`, `parley up`.",
    )


def _live_agentlip(workspace: Workspace) -> AgentlipRunning | None:
    """An Agentlip hub that answers; it does not know our lock, and its files are not stale."""
    try:
        refuse_live_agentlip(workspace)
    except AgentlipRunning as running:
        return running
    return None


def _db_id(workspace: Workspace) -> str | None:
    try:
        with open_reading(workspace) as reading:
            return reading.db_id
    except ParleyError:
        return None
