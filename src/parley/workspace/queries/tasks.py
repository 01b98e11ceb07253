"""Reading tasks, as of a time: a claim that has ended by then is over, whether or not the hub has written that down."""

from itertools import starmap
from typing import Any, Final

import apsw
from msgspec.structs import replace

from parley.core.holds import Hold, is_live
from parley.core.ids import TASK
from parley.wire.entities import Task, TaskStatus

TASK_COLUMNS: Final = (
    "id, topic_id, channel_id, title, description, status, created_by, holder, generation, lease_expires_at,"
    " created_at, updated_at, claimed_at, completed_at, result"
)
_TASK: Final = f"SELECT {TASK_COLUMNS} FROM tasks WHERE id = ?"
_TASK_OF_TOPIC: Final = f"SELECT {TASK_COLUMNS} FROM tasks WHERE topic_id = ?"
_TOPIC_OF_TASK: Final = "SELECT topic_id FROM tasks WHERE id = ?"
_NEXT_OPEN: Final = f"SELECT {TASK_COLUMNS} FROM tasks WHERE status = 'open' ORDER BY id LIMIT 1"
_NEXT_OPEN_IN_CHANNEL: Final = (
    f"SELECT {TASK_COLUMNS} FROM tasks WHERE channel_id = ? AND status = 'open' ORDER BY id LIMIT 1"
)
_ENDED: Final = (
    f"SELECT {TASK_COLUMNS} FROM tasks WHERE status = 'claimed' AND lease_expires_at <= ?"
    " ORDER BY lease_expires_at, id LIMIT ?"
)
_HELD_BY: Final = f"SELECT {TASK_COLUMNS} FROM tasks WHERE status = 'claimed' AND holder = ? ORDER BY id"
# As of :now, which is compared once more in Python: here only the right rows have to be found.
_STATUS_NOW: Final = "CASE WHEN status = 'claimed' AND lease_expires_at <= :now THEN 'open' ELSE status END"
_WANTED: Final = (
    f"(:status IS NULL OR {_STATUS_NOW} = :status)"
    " AND (:channel_id IS NULL OR channel_id = :channel_id)"
    " AND (:holder IS NULL OR holder = :holder AND NOT (status = 'claimed' AND lease_expires_at <= :now))"
    " ORDER BY id DESC LIMIT :limit OFFSET :offset"
)
_LIST: Final = f"SELECT {TASK_COLUMNS} FROM tasks WHERE {_WANTED}"
_LIST_OF_TOPIC: Final = f"SELECT {TASK_COLUMNS} FROM tasks WHERE topic_id = :topic_id AND {_WANTED}"


def hold_of(task: Task) -> Hold:
    """Who holds the task, by what is written down."""
    return Hold(task.holder if task.status == "claimed" else None, task.generation, task.lease_expires_at)


def task_at(task: Task, now: str) -> Task:
    """The task as it is at this time: open again once its claim has ended."""
    if task.status != "claimed" or is_live(hold_of(task), now):
        return task
    return replace(task, status="open", holder=None, lease_expires_at=None, claimed_at=None)


def get_task(connection: apsw.Connection, task_id: str) -> Task | None:
    """One task as it is written down, by its own id or that of its topic."""
    row: Any = connection.execute(_TASK if task_id.startswith(TASK) else _TASK_OF_TOPIC, (task_id,)).fetchone()
    return None if row is None else Task(*row)


def list_tasks(
    connection: apsw.Connection,
    *,
    now: str,
    status: TaskStatus | None = None,
    channel_id: str | None = None,
    topic_id: str | None = None,
    holder: str | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[Task], bool]:
    """Tasks as they are at this time, newest first, and whether there are more."""
    parameters: dict[str, str | int | None] = {
        "now": now,
        "status": status,
        "channel_id": channel_id,
        "holder": holder,
        "limit": limit + 1,
        "offset": offset,
    }
    if topic_id is None:
        rows = connection.execute(_LIST, parameters)
    else:
        rows = connection.execute(_LIST_OF_TOPIC, {**parameters, "topic_id": topic_id})
    found = [task_at(task, now) for task in starmap(Task, rows)]
    return found[:limit], len(found) > limit


def next_open_task(connection: apsw.Connection, channel_id: str | None) -> Task | None:
    """The oldest task that is open, in a channel or in any."""
    if channel_id is None:
        row: Any = connection.execute(_NEXT_OPEN).fetchone()
    else:
        row = connection.execute(_NEXT_OPEN_IN_CHANNEL, (channel_id,)).fetchone()
    return None if row is None else Task(*row)


def ended_tasks(connection: apsw.Connection, now: str, limit: int) -> list[Task]:
    """Tasks that are written down as claimed though their claims have ended."""
    return list(starmap(Task, connection.execute(_ENDED, (now, limit))))


def tasks_held_by(connection: apsw.Connection, holder: str) -> list[Task]:
    """Tasks that somebody has claimed, by what is written down."""
    return list(starmap(Task, connection.execute(_HELD_BY, (holder,))))


def topic_id_of(connection: apsw.Connection, thread_id: str) -> str:
    """The id of a topic, also where that of its task was given."""
    if not thread_id.startswith(TASK):
        return thread_id
    row: Any = connection.execute(_TOPIC_OF_TASK, (thread_id,)).fetchone()
    return thread_id if row is None else row[0]
