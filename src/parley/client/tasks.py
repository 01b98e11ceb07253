"""What a client can ask about tasks. Whoever holds one passes on the ``generation`` that its claim came with."""

from typing import TYPE_CHECKING

from parley.client.call import Call, Caller, Read, check_limit, encoded, mutation, own_name, query_text, segment
from parley.core import limits
from parley.core.clock import SystemClock, iso
from parley.core.errors import NotFound
from parley.wire import requests
from parley.wire.answers import NextTask, OneTask, TaskResult, Tasks
from parley.wire.entities import TaskStatus
from parley.wire.paging import offset_cursor, parse_cursor
from parley.workspace import queries
from parley.workspace.queries.tasks import task_at

if TYPE_CHECKING:
    import apsw


def create_task(
    caller: Caller,
    title: str,
    *,
    channel_id: str | None = None,
    topic_id: str | None = None,
    description: str | None = None,
    created_by: str | None = None,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Makes a task in a channel, with a topic of the same title; or makes it the companion of a topic that is there."""
    body = requests.CreateTask(title, own_name(caller, created_by, "created_by"), description, channel_id, topic_id)
    return mutation(caller, "POST", "/api/v1/tasks", TaskResult, body, idempotency_key)


def claim_task(
    caller: Caller,
    task_id: str,
    holder: str | None = None,
    *,
    ttl_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Takes a task, by default in the client's own name. Raises ``TaskHeld`` if somebody else has it.

    The answer's ``generation`` goes along with every later call about it. The claim ends at ``lease_expires_at``
    unless it is renewed. Claiming again what one holds gives a new generation, and fences off the old one.
    """
    body = requests.ClaimTask(own_name(caller, holder, "holder"), ttl_seconds)
    return mutation(caller, "PATCH", _task(task_id), TaskResult, body, idempotency_key)


def claim_next_task(
    caller: Caller,
    holder: str | None = None,
    *,
    channel_id: str | None = None,
    ttl_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call[NextTask]:
    """Takes the oldest open task, in a channel or in any; ``task`` is None if there is none."""
    body = requests.ClaimNext(own_name(caller, holder, "holder"), channel_id, ttl_seconds)
    return mutation(caller, "POST", "/api/v1/tasks/claim_next", NextTask, body, idempotency_key)


def renew_task(
    caller: Caller,
    task_id: str,
    generation: int,
    holder: str | None = None,
    *,
    ttl_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Pushes the end of a claim on. Raises ``TaskNotHeld`` if it has ended or was lost.

    Doing it twice does no harm, so it needs no key; with one, it is done once.
    """
    body = requests.RenewTask(own_name(caller, holder, "holder"), generation, ttl_seconds)
    return Call("PATCH", _task(task_id), TaskResult, encoded(body), idempotency_key)


def release_task(
    caller: Caller,
    task_id: str,
    generation: int,
    holder: str | None = None,
    *,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Gives a task back; it is open again."""
    body = requests.ReleaseTask(own_name(caller, holder, "holder"), generation, reason)
    return mutation(caller, "PATCH", _task(task_id), TaskResult, body, idempotency_key)


def complete_task(
    caller: Caller,
    task_id: str,
    generation: int,
    result: str | None = None,
    holder: str | None = None,
    *,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Says that a task is done, and what came of it."""
    body = requests.CompleteTask(own_name(caller, holder, "holder"), generation, result)
    return mutation(caller, "PATCH", _task(task_id), TaskResult, body, idempotency_key)


def cancel_task(
    caller: Caller,
    task_id: str,
    actor: str | None = None,
    *,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Calls a task off, whoever holds it."""
    body = requests.CancelTask(own_name(caller, actor, "actor"), reason)
    return mutation(caller, "PATCH", _task(task_id), TaskResult, body, idempotency_key)


def take_over_task(
    caller: Caller,
    task_id: str,
    holder: str | None = None,
    *,
    reason: str | None = None,
    force: bool = False,
    ttl_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call[TaskResult]:
    """Takes a task from a holder whose claim has ended or who has gone; with ``force`` and a reason from any.

    The log keeps from whom, at which generation and why.
    """
    body = requests.TakeOverTask(own_name(caller, holder, "holder"), reason, force, ttl_seconds)
    return mutation(caller, "PATCH", _task(task_id), TaskResult, body, idempotency_key)


def list_tasks(
    _caller: Caller,
    *,
    status: TaskStatus | None = None,
    channel_id: str | None = None,
    topic_id: str | None = None,
    holder: str | None = None,
    limit: int = limits.PAGE_LIMIT_DEFAULT,
    cursor: str | None = None,
) -> Read[Tasks]:
    """Tasks as they are now, newest first. ``cursor`` goes on where an earlier answer ended."""
    check_limit(limit)
    offset = parse_cursor(cursor, "rows").offset or 0

    def from_file(connection: "apsw.Connection") -> Tasks:
        found, more = queries.list_tasks(
            connection,
            now=_now(),
            status=status,
            channel_id=channel_id,
            topic_id=topic_id,
            holder=holder,
            limit=limit,
            offset=offset,
        )
        return Tasks(found, more, offset_cursor(offset, limit, more))

    path = "/api/v1/tasks" + query_text(
        status=status, channel_id=channel_id, topic_id=topic_id, holder=holder, limit=limit, cursor=cursor
    )
    return Read("GET", path, Tasks, from_file=from_file)


def get_task(_caller: Caller, task_id: str) -> Read[OneTask]:
    """One task as it is now, by its id or that of its topic."""

    def from_file(connection: "apsw.Connection") -> OneTask:
        found = queries.get_task(connection, task_id)
        if found is None:
            raise NotFound(f"Task not found: {task_id}", task_id=task_id)
        return OneTask(task_at(found, _now()))

    return Read("GET", _task(task_id), OneTask, from_file=from_file)


def _task(task_id: str) -> str:
    return f"/api/v1/tasks/{segment(task_id)}"


def _now() -> str:
    return iso(SystemClock().now_ms())
