"""What ``doctor`` looks at in a workspace: its files, its settings and its database.

Each check is a function that looks at one thing and says in words what it found and what to do about it. None of them
changes anything. Whether a hub runs and answers is checked where servers are known.
"""

import shlex
import shutil
import stat
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import apsw

from parley.core.errors import ConfigInvalid, ParleyError, SchemaTooNew
from parley.core.patterns import overlap
from parley.core.settings import RateLimitSettings, Settings, TroubleSettings
from parley.sqlite import foreign_key_check, integrity_check, translate, wal_bytes
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.queries import oldest_cursor
from parley.workspace.queries.coordination import count_coordination
from parley.workspace.queries.leases import active_leases
from parley.workspace.reading import Reading, open_reading
from parley.workspace.versions import MIGRATIONS

Status = Literal["ok", "warn", "error"]

RATE_SANE_MAX: Final = 1_000_000
"""No machine answers more requests per second; such a limit limits nothing."""
_SHOWN: Final = 3
"""A person needs the first few of a list of problems."""
_MIB: Final = 1024 * 1024

_EXTENT: Final = "SELECT count(*), coalesce(min(event_id), 0), coalesce(max(event_id), 0) FROM events"
_GAPS: Final = (
    "SELECT event_id + 1 FROM events AS e WHERE event_id < ?"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE event_id = e.event_id + 1) ORDER BY event_id LIMIT ?"
)
_LAST: Final = "SELECT event_id, ts, name FROM events ORDER BY event_id DESC LIMIT 1"


class Check(NamedTuple):
    """One finding. ``fix`` is what a person does about it; empty when there is nothing to do."""

    name: str
    status: Status
    message: str
    fix: str = ""


def check_workspace(workspace: Workspace) -> Iterator[Check]:
    """Every check of files, settings and database, in the order in which one thing rests on another."""
    yield check_suspect(workspace)
    yield check_modes(workspace)
    settings = Settings()
    try:
        settings = load_settings(workspace.config)
        yield Check("config", "ok", f"{workspace.config.name} is valid")
        yield check_rate_limits(settings.rate_limits)
    except ConfigInvalid as error:
        yield Check("config", "error", error.message, error.hint)
    yield check_disk(workspace.state, settings.trouble)
    yield check_wal(workspace.db, settings.trouble)
    yield from check_database(workspace)


def check_database(workspace: Workspace) -> Iterator[Check]:
    """The checks that look into the database. One that cannot be opened is one error and the end of them."""
    try:
        with open_reading(workspace) as reading:
            yield check_schema(reading)
            yield check_integrity(reading.connection)
            yield check_foreign_keys(reading.connection)
            yield check_event_gaps(reading.connection)
            yield check_last_event(reading.connection)
            yield check_coordination(reading.connection)
    except SchemaTooNew as error:
        yield Check("schema", "error", error.message, error.hint)
    except ParleyError as error:
        yield Check("database", "error", error.message, error.hint)
    except apsw.Error as error:
        typed = translate(error)
        yield Check("database", "error", typed.message, typed.hint)


def check_suspect(workspace: Workspace) -> Check:
    """Whether a hub has marked the database as damaged."""
    if workspace.suspect.exists():
        message = f"A hub found the database damaged and left {workspace.suspect.name}"
        return Check("suspect", "error", message, "Run `parley doctor --repair`, or restore a backup.")
    return Check("suspect", "ok", "No hub has found the database damaged")


def check_modes(workspace: Workspace) -> Check:
    """Whether anybody else could read the token or the messages, or replace them."""
    open_files = [
        path.name for path in (workspace.token, workspace.server_file, workspace.db) if _open_to_others(path, 0o077)
    ]
    secret = any(name in (workspace.token.name, workspace.server_file.name) for name in open_files)
    if _open_to_others(workspace.state, 0o022):
        open_files.append(f"{workspace.state.name}/")
    if not open_files:
        return Check("modes", "ok", "Token, server file and database are readable by their owner alone")
    return Check(
        "modes",
        "error" if secret else "warn",
        f"Open to other users: {', '.join(open_files)}",
        f"Run `parley doctor --repair`, or `{shlex.join(['chmod', '-R', 'go=', str(workspace.state)])}`.",
    )


def check_rate_limits(limits: RateLimitSettings) -> Check:
    """Whether the configured limits limit anything, and do not contradict each other."""
    if not limits.enabled:
        return Check("rate_limits", "warn", "Rate limits are off", "Set rate_limits.enabled = true in parley.toml.")
    if limits.per_connection > limits.overall:
        return Check(
            "rate_limits",
            "warn",
            f"per_connection ({limits.per_connection}) is above overall ({limits.overall}) and never takes effect",
            "Lower rate_limits.per_connection, or raise rate_limits.overall.",
        )
    if limits.overall > RATE_SANE_MAX:
        message = f"overall is {limits.overall} requests per second, which no hub reaches"
        return Check("rate_limits", "warn", message, f"Set rate_limits.overall to at most {RATE_SANE_MAX}.")
    return Check("rate_limits", "ok", f"{limits.per_connection} per connection, {limits.overall} overall, per second")


def check_disk(folder: Path, trouble: TroubleSettings) -> Check:
    """Whether there is room to go on writing."""
    free = shutil.disk_usage(folder).free
    if free < trouble.disk_free_bytes_min:
        message = f"{free // _MIB} MiB free; under {trouble.disk_free_bytes_min // _MIB} MiB writes are refused"
        return Check("disk", "warn", message, "Free some space, or lower trouble.disk_free_bytes_min.")
    return Check("disk", "ok", f"{free // _MIB} MiB free")


def check_wal(database: Path, trouble: TroubleSettings) -> Check:
    """Whether the write-ahead log is being merged."""
    size = wal_bytes(database)
    if size > trouble.wal_bytes_max:
        message = (
            f"The write-ahead log has {size // _MIB} MiB; above {trouble.wal_bytes_max // _MIB} MiB writes are refused"
        )
        return Check("wal", "warn", message, "Run `parley doctor --checkpoint`; a reader that stays open may hold it.")
    return Check("wal", "ok", f"The write-ahead log has {size // 1024} KiB")


def check_schema(reading: Reading, newest: int = len(MIGRATIONS)) -> Check:
    """Whether the next start of a hub will change the schema."""
    if reading.schema == 0:
        return Check(
            "schema", "warn", "An Agentlip database; the next start adopts it after a backup", "Run `parley up`."
        )
    if reading.schema < newest:
        message = f"Schema version {reading.schema}; the next start migrates it to {newest} after a backup"
        return Check("schema", "warn", message, "Run `parley up`.")
    return Check("schema", "ok", f"Schema version {reading.schema} (current)")


def check_integrity(connection: apsw.Connection) -> Check:
    """Whether SQLite finds the file sound."""
    problems = integrity_check(connection)
    if problems:
        message = f"{len(problems)} problems, first: {'; '.join(problems[:_SHOWN])}"
        return Check("integrity", "error", message, "Run `parley doctor --repair`; else restore a backup.")
    return Check("integrity", "ok", "The file is sound")


def check_foreign_keys(connection: apsw.Connection) -> Check:
    """Whether every row's references exist."""
    violations = foreign_key_check(connection)
    if violations:
        first = violations[0]
        message = f"{len(violations)} violations, first in {first.table}, row {first.rowid}, to {first.parent}"
        return Check("foreign_keys", "error", message, "Restore a backup; `parley export` saves what can be read.")
    return Check("foreign_keys", "ok", "No violations")


def check_event_gaps(connection: apsw.Connection) -> Check:
    """Whether the log is contiguous from the end of the last archive, or from its beginning."""
    row: Any = connection.execute(_EXTENT).fetchall()[0]
    count, first, last = row
    floor = oldest_cursor(connection)
    expected_first = 1 if floor is None else floor.event_id + 1
    if count == 0:
        return Check("events", "ok", "The log is empty")
    missing = [expected_first] if first > expected_first else []
    if count != last - first + 1:
        missing += [int(str(gap)) for (gap,) in connection.execute(_GAPS, (last, _SHOWN))]
    if missing:
        return Check(
            "events",
            "warn",
            f"{count} events, with gaps at event {', '.join(map(str, missing[:_SHOWN]))}",
            "Events were removed by something other than `parley archive`; compare with a backup.",
        )
    return Check("events", "ok", f"{count} events from {first} to {last}, no gaps")


def check_last_event(connection: apsw.Connection) -> Check:
    """The end of the log."""
    row = connection.execute(_LAST).fetchone()
    if row is None:
        return Check("last_event", "ok", "No event yet")
    return Check("last_event", "ok", f"Event {row[0]} at {row[1]}: {row[2]}")


def check_coordination(connection: apsw.Connection) -> Check:
    """Who is here and what they hold; no two may hold paths that overlap, unless both share them."""
    active = active_leases(connection)
    clashes = [
        f"{left.id} of {left.holder} and {right.id} of {right.holder}"
        for left, right in combinations(active, 2)
        if left.holder != right.holder
        and "exclusive" in (left.mode, right.mode)
        and any(overlap(a, b) for a in left.patterns for b in right.patterns)
    ]
    if clashes:
        message = f"{len(clashes)} pairs of leases overlap, first: {'; '.join(clashes[:_SHOWN])}"
        return Check("coordination", "error", message, "Release one of each pair with `parley lease release`.")
    counts = count_coordination(connection)
    return Check(
        "coordination",
        "ok",
        f"{counts.agents_active} agents, {counts.tasks_open} tasks open and {counts.tasks_claimed} claimed,"
        f" {counts.leases_active} leases",
    )


def _open_to_others(path: Path, bits: int) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & bits)
    except FileNotFoundError:
        return False
