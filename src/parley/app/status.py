"""Whether the hub of a workspace runs, and how much the workspace holds and grows."""

from typing import Any, Final

import apsw
import msgspec

from parley.app.health import ask_health, read_server_file
from parley.core.clock import Clock, iso, parse_iso
from parley.core.errors import ParleyError
from parley.core.exits import Exit
from parley.core.instance_lock import probe
from parley.hub.rules.jobs import backlog, plugins_with_jobs
from parley.wire.answers import Health
from parley.workspace import queries
from parley.workspace.layout import Workspace
from parley.workspace.queries.coordination import count_coordination
from parley.workspace.reading import open_reading

DAY_MS: Final = 24 * 60 * 60 * 1000
GROWTH_DAYS: Final = 7
"""Long enough to even out a weekend, short enough to notice a change."""

EXITS: Final = {
    "running": Exit.OK,
    "not_running": Exit.UNREACHABLE,
    "unreachable": Exit.UNREACHABLE,
    "db_mismatch": Exit.ERROR,
}


def workspace_status(workspace: Workspace, clock: Clock) -> dict[str, Any]:
    """What ``parley status`` prints; ``EXITS`` has the code for its ``status``."""
    stored, db_id = _stored(workspace, clock)
    return {**_serving(workspace, db_id), "workspace_root": str(workspace.root), **stored}


def _serving(workspace: Workspace, db_id: str | None) -> dict[str, Any]:
    """The hub's part: found by ``server.json``, confirmed by ``/health``, and by the lock when that is silent."""
    hint = read_server_file(workspace)
    holder = probe(workspace.lock)
    answer = hint.problem if hint.server is None else ask_health(hint.server)
    if isinstance(answer, Health):
        about = {
            "instance_id": answer.instance_id,
            "db_id": answer.db_id,
            "schema_version": answer.schema_version,
            "protocol_version": answer.protocol_version,
            "host": hint.server.host if hint.server else None,
            "port": hint.server.port if hint.server else None,
            "pid": answer.pid,
            "uptime_seconds": answer.uptime_seconds,
            "health": answer.status,
            "problems": answer.problems,
        }
        if db_id is not None and answer.db_id != db_id:
            error = f"the hub serves database {answer.db_id}, this workspace is {db_id}"
            return {"status": "db_mismatch", **about, "error": error}
        return {"status": "running", **about}
    if holder is None:
        return {"status": "not_running"} | ({} if answer is None else {"error": answer})
    error = answer or "a process holds the lock but has not announced itself; it may be starting or stopping"
    return {"status": "unreachable", "pid": holder.pid, "instance_id": holder.instance_id, "error": error}


def _stored(workspace: Workspace, clock: Clock) -> tuple[dict[str, Any], str | None]:
    """The files' part, which needs no hub. A database that cannot be read is said, not raised."""
    sizes = {"db_bytes": _size(workspace.db), "wal_bytes": _size(workspace.wal)}
    try:
        with open_reading(workspace) as reading:
            now_ms, reader = clock.now_ms(), reading.connection
            stored = {
                **sizes,
                **growth(reader, now_ms, sizes["db_bytes"]),
                "jobs": jobs(reader, now_ms),
                "coordination": msgspec.to_builtins(count_coordination(reader)),
            }
            return stored, reading.db_id
    except (ParleyError, apsw.Error) as error:
        return {**sizes, "db_error": str(error)}, None


def jobs(reading: apsw.Connection, now_ms: int) -> dict[str, Any]:
    """The work of plugins that is not done, all of them together; read from the file, so it needs no hub."""
    waits = [backlog(reading, plugin, now_ms) for plugin in plugins_with_jobs(reading)]
    return {
        "waiting": sum(each.waiting for each in waits),
        "failed": sum(each.failed for each in waits),
        "oldest_waiting_seconds": max((each.oldest_waiting_seconds for each in waits), default=0.0),
    }


def growth(reading: apsw.Connection, now_ms: int, db_bytes: int) -> dict[str, Any]:
    """Events kept, and events and bytes per day over the last week or as long as there were any."""
    newest = queries.latest_event_id(reading)
    floor = queries.oldest_cursor(reading)
    oldest = 0 if floor is None else floor.event_id
    kept = newest - oldest
    if kept == 0:
        return {"events": 0, "latest_event_id": newest, "growth_per_day": {"events": 0, "bytes": 0}}
    first_ms = parse_iso(_time_of(reading, oldest + 1))
    since_ms = max(now_ms - GROWTH_DAYS * DAY_MS, first_ms)
    recent = newest - _last_before(reading, iso(since_ms), oldest, newest)
    days = max((now_ms - since_ms) / DAY_MS, 1.0)  # a workspace of an hour has grown for a day, not 24 times as fast
    per_day = recent / days
    return {
        "events": kept,
        "latest_event_id": newest,
        "growth_per_day": {"events": round(per_day), "bytes": round(per_day * db_bytes / kept)},
    }


def _last_before(reading: apsw.Connection, moment: str, low: int, high: int) -> int:
    """The largest id of an event before the moment, by halving: the log is in order of time but for clock jumps."""
    while low < high:
        middle = (low + high + 1) // 2
        if _time_of(reading, middle) < moment:
            low = middle
        else:
            high = middle - 1
    return low


def _time_of(reading: apsw.Connection, event_id: int) -> str:
    """The time of this event, or of the next one where the numbering has a gap."""
    row = reading.execute("SELECT ts FROM events WHERE event_id >= ? ORDER BY event_id LIMIT 1", (event_id,)).fetchone()
    return "" if row is None else str(row[0])


def _size(path: Any) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
