"""Hubs for the tests: workspaces whose logs are written straight into their files."""

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw

from parley.core.clock import ManualClock, iso
from parley.pipeline.hubs import HubRef, hub_of_workspace
from parley.workspace.layout import Workspace
from tests.hub.histories import History
from tests.workspace.databases import START_MS, new_workspace, prepared, writing

BUSY_MS = 30_000
"""Whoever is the last to close a database folds its write-ahead log into it, and has it alone meanwhile."""
DAY_MS = 24 * 3600 * 1000
_INSERT = (
    "INSERT INTO events"
    " (ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id, data_json)"
    " VALUES (?, ?, ?, ?, ?, 'message', ?, ?)"
)


def make_hub(root: Path, events: int = 0, *, steps: int = 0, seed: int = 1) -> HubRef:
    """A workspace with a log of so many plain events, or of the events of so many random steps of a hub's own rules."""
    root.mkdir(parents=True, exist_ok=True)
    workspace = new_workspace(root)
    with writing(workspace) as connection:
        prepared(connection, workspace, fts=False)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'db_id'", (str(uuid.uuid4()),))
        if steps:
            History(connection, seed, ManualClock(START_MS)).run(steps)
    append(workspace, range(events))
    return hub_of_workspace(root)


def append(workspace: Workspace, numbers: Iterable[int], *, a_day: int = 100) -> None:
    """Appends one event per number, so many a day."""
    with writing(workspace) as connection:
        append_to(connection, numbers, a_day=a_day)


def append_to(connection: apsw.Connection, numbers: Iterable[int], *, a_day: int = 100) -> None:
    """The same through a connection that is open, in one transaction."""
    with connection:
        for number in numbers:
            ts = iso(START_MS + number * DAY_MS // a_day)
            data = f'{{"number":{number},"text":"naïve ☕ “quoted” \\\\ {number}"}}'
            scopes = ("ch_1", f"topic_{number % 3}", "topic_9" if number % 7 == 0 else None)
            connection.execute(_INSERT, (ts, f"test.kind_{number % 2}", *scopes, f"msg_{number}", data))


def log_rows(database: str | Path) -> list[tuple[Any, ...]]:
    """The log as its file holds it, read by another library than the pipeline's."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_MS)
    try:
        return connection.execute(
            "SELECT event_id, ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id,"
            " data_json FROM events ORDER BY event_id"
        ).fetchall()
    finally:
        connection.close()
