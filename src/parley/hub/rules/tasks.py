"""Tasks: create, claim, renew, give back, complete, cancel, take over.

A claim lasts until its end unless it is renewed; then the task is open again, for anybody. Each claim raises the task's
generation, and the holder's calls carry it, so a holder that was away while somebody else took the task is refused
whatever it tries. A task is taken from a holder whose claim has not ended only by force, and the log says by whom, from
whom and why.
"""

from typing import Final

from msgspec.structs import replace

from parley.core import ids
from parley.core.errors import InvalidInput, NotFound, TaskClosed, TaskHeld, TaskNotHeld
from parley.core.holds import Loss, loss_of
from parley.core.settings import TaskSettings
from parley.hub.rules.channels import create_topic, topic_of
from parley.hub.rules.idempotency import Earlier, Once, earlier, remember
from parley.hub.rules.leases import end_of
from parley.hub.rules.presence import return_agent
from parley.hub.transaction import Tx
from parley.wire.answers import NextTask, TaskResult
from parley.wire.entities import Task
from parley.wire.events import (
    TaskCancelled,
    TaskClaimed,
    TaskCompleted,
    TaskCreated,
    TaskExpired,
    TaskReleased,
    TaskTakenOver,
)
from parley.wire.requests import (
    CancelTask,
    ClaimNext,
    ClaimTask,
    CompleteTask,
    CreateTask,
    CreateTopic,
    ReleaseTask,
    RenewTask,
    TakeOverTask,
)
from parley.workspace import queries
from parley.workspace.log import Draft
from parley.workspace.queries.tasks import ended_tasks, hold_of, next_open_task, task_at, tasks_held_by

ENDED_BATCH: Final = 100
"""Claims that have ended and are written down in one go, so that looking for work never takes long."""

_INSERT: Final = (
    "INSERT INTO tasks (id, topic_id, channel_id, title, description, status, created_by, generation, created_at,"
    " updated_at) VALUES (?, ?, ?, ?, ?, 'open', ?, 0, ?, ?)"
)
_UPDATE: Final = (
    "UPDATE tasks SET status = ?, holder = ?, generation = ?, lease_expires_at = ?, updated_at = ?, claimed_at = ?,"
    " completed_at = ?, result = ? WHERE id = ?"
)
_RENEW: Final = "UPDATE tasks SET lease_expires_at = ? WHERE id = ?"
_WORDS: Final[dict[Loss, str]] = {
    "not_held": "is held by nobody",
    "expired": "was claimed, and the claim has ended",
    "other_holder": "is held by somebody else",
    "other_generation": "was claimed again since",
}


def create_task(tx: Tx, request: CreateTask, once: Once | None = None) -> TaskResult:
    """Makes a task, and its topic unless it is to be the companion of one that is there."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    if request.topic_id is not None:
        topic = topic_of(tx.db, request.topic_id)
        if request.channel_id not in (None, topic.channel_id):
            raise InvalidInput("The topic is in another channel", field="channel_id")
        if queries.get_task(tx.db, topic.id) is not None:
            raise InvalidInput("The topic has a task already", field="topic_id")
    elif request.channel_id is not None:
        topic = create_topic(tx, CreateTopic(request.channel_id, request.title)).topic
    else:
        raise InvalidInput("channel_id or topic_id is required", field="channel_id")
    task = Task(
        tx.new_id(ids.TASK),
        topic.id,
        topic.channel_id,
        request.title,
        request.description,
        "open",
        request.created_by,
        None,
        0,
        None,
        tx.ts,
        tx.ts,
    )
    tx.db.execute(
        _INSERT,
        (task.id, topic.id, topic.channel_id, task.title, task.description, task.created_by, tx.ts, tx.ts),
    )
    event_id = _tell(tx, "task.created", task, TaskCreated(task, request.created_by))
    remember(tx, once, "task.create", task.id, event_id)
    return TaskResult(task, event_id)


def claim_task(
    tx: Tx, task_id: str, request: ClaimTask, settings: TaskSettings, once: Once | None = None
) -> TaskResult:
    """Takes the task if nobody else holds it. The holder itself may claim it again, at a new generation."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    task = _not_closed(_settled(tx, task_id))
    if task.holder not in (None, request.holder):
        raise _held_error(task)
    return_agent(tx, request.holder)
    claimed = _take(tx, task, request.holder, request.ttl_seconds, settings)
    event_id = _tell(tx, "task.claimed", claimed, TaskClaimed(claimed, request.holder, task.holder))
    remember(tx, once, "task.claim", task.id, event_id)
    return TaskResult(claimed, event_id)


def claim_next(tx: Tx, request: ClaimNext, settings: TaskSettings, once: Once | None = None) -> NextTask:
    """Takes the oldest task that is open, in a channel or in any; none if there is none."""
    if (before := earlier(tx, once)) is not None:
        result = _again(tx, before)
        return NextTask(result.task, result.event_id, duplicate=True)
    if request.channel_id is not None and queries.get_channel(tx.db, request.channel_id) is None:
        raise NotFound("Channel not found", channel_id=request.channel_id)
    return_agent(tx, request.holder)
    expire_tasks(tx, ENDED_BATCH)
    task = next_open_task(tx.db, request.channel_id)
    if task is None:
        return NextTask(None, None)
    claimed = _take(tx, task, request.holder, request.ttl_seconds, settings)
    event_id = _tell(tx, "task.claimed", claimed, TaskClaimed(claimed, request.holder))
    remember(tx, once, "task.claim_next", task.id, event_id)
    return NextTask(claimed, event_id)


def renew_task(
    tx: Tx, task_id: str, request: RenewTask, settings: TaskSettings, once: Once | None = None
) -> TaskResult:
    """Pushes the end of the claim on, counted from now. An end that is further away stays."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    task = _held(tx, task_id, request.holder, request.generation)
    expires_at = end_of(tx, request.ttl_seconds, settings.ttl_seconds, settings.ttl_seconds_max)
    renewed = replace(task, lease_expires_at=max(task.lease_expires_at or "", expires_at))
    tx.db.execute(_RENEW, (renewed.lease_expires_at, task.id))
    remember(tx, once, "task.renew", task.id, None)
    return TaskResult(renewed, None)


def release_task(tx: Tx, task_id: str, request: ReleaseTask, once: Once | None = None) -> TaskResult:
    """Gives the task back; it is open again."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    task = _held(tx, task_id, request.holder, request.generation)
    released, event_id = _release(tx, task, request.holder, request.reason)
    remember(tx, once, "task.release", task.id, event_id)
    return TaskResult(released, event_id)


def complete_task(tx: Tx, task_id: str, request: CompleteTask, once: Once | None = None) -> TaskResult:
    """The holder has done the task. Completing what this very claim has completed changes nothing."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    there = task_of(tx, task_id)
    if there.status == "completed" and (there.holder, there.generation) == (request.holder, request.generation):
        remember(tx, once, "task.complete", there.id, None)
        return TaskResult(there, None)
    task = _held(tx, task_id, request.holder, request.generation)
    completed = replace(
        task, status="completed", lease_expires_at=None, updated_at=tx.ts, completed_at=tx.ts, result=request.result
    )
    _write(tx, completed)
    event_id = _tell(tx, "task.completed", completed, TaskCompleted(completed, request.holder))
    remember(tx, once, "task.complete", task.id, event_id)
    return TaskResult(completed, event_id)


def cancel_task(tx: Tx, task_id: str, request: CancelTask, once: Once | None = None) -> TaskResult:
    """Calls the task off, whoever holds it. Cancelling it again changes nothing."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    task = _settled(tx, task_id)
    if task.status == "cancelled":
        remember(tx, once, "task.cancel", task.id, None)
        return TaskResult(task, None)
    _not_closed(task)
    cancelled = replace(task, status="cancelled", holder=None, lease_expires_at=None, updated_at=tx.ts, claimed_at=None)
    _write(tx, cancelled)
    payload = TaskCancelled(cancelled, request.actor, request.reason, task.holder)
    event_id = _tell(tx, "task.cancelled", cancelled, payload)
    remember(tx, once, "task.cancel", task.id, event_id)
    return TaskResult(cancelled, event_id)


def take_over_task(
    tx: Tx, task_id: str, request: TakeOverTask, settings: TaskSettings, once: Once | None = None
) -> TaskResult:
    """Takes the task from a holder whose claim has ended or who has gone, or by force. An open task is claimed."""
    if (before := earlier(tx, once)) is not None:
        return _again(tx, before)
    if request.force and request.reason is None:
        raise InvalidInput("A takeover by force needs a reason", field="reason")
    task = _not_closed(task_of(tx, task_id))
    ended = task_at(task, tx.ts).status == "open"
    if task.holder in (None, request.holder):
        claim = ClaimTask(request.holder, request.ttl_seconds)
        return claim_task(tx, task_id, claim, settings, once)
    forced = not ended and not _has_gone(tx, task.holder)
    if forced and not request.force:
        raise _held_error(task)
    return_agent(tx, request.holder)
    taken = _take(tx, task, request.holder, request.ttl_seconds, settings)
    payload = TaskTakenOver(taken, request.holder, request.reason, task.holder, task.generation, forced)
    event_id = _tell(tx, "task.taken_over", taken, payload)
    remember(tx, once, "task.take_over", task.id, event_id)
    return TaskResult(taken, event_id)


def release_all_tasks(tx: Tx, holder: str, reason: str) -> list[str]:
    """Gives back all that somebody holds, by the hub itself; a claim that has ended already is said to have expired."""
    released: list[str] = []
    for task in tasks_held_by(tx.db, holder):
        if task_at(task, tx.ts).status == "open":
            _expire(tx, task)
        else:
            _release(tx, task, None, reason)
            released.append(task.id)
    return released


def expire_tasks(tx: Tx, limit: int) -> int:
    """Writes down up to ``limit`` ends of claims that have come, each with its event; how many there were."""
    ended = ended_tasks(tx.db, tx.ts, limit)
    for task in ended:
        _expire(tx, task)
    return len(ended)


def task_of(tx: Tx, task_id: str) -> Task:
    """The task as it is written down, by its id or that of its topic. Raises ``NotFound``."""
    task = queries.get_task(tx.db, task_id)
    if task is None:
        raise NotFound(f"Task not found: {task_id}", task_id=task_id)
    return task


def _settled(tx: Tx, task_id: str) -> Task:
    """The task as it is now; a claim that has ended is written down as such first."""
    task = task_of(tx, task_id)
    return task if task_at(task, tx.ts).status == task.status else _expire(tx, task)


def _not_closed(task: Task) -> Task:
    if task.status in ("completed", "cancelled"):
        raise TaskClosed(f"Task {task.id} is {task.status}", task_id=task.id, status=task.status, holder=task.holder)
    return task


def _held(tx: Tx, task_id: str, holder: str, generation: int) -> Task:
    """The task, if the caller holds it now. Raises ``TaskClosed`` or ``TaskNotHeld``."""
    task = _not_closed(task_of(tx, task_id))
    loss = loss_of(hold_of(task), holder=holder, generation=generation, now=tx.ts)
    if loss is not None:
        now = task_at(task, tx.ts)
        raise TaskNotHeld(
            f"Task {task.id} {_WORDS[loss]}",
            task_id=task.id,
            loss=loss,
            status=now.status,
            holder=now.holder,
            generation=now.generation,
            lease_expires_at=now.lease_expires_at,
        )
    return task


def _held_error(task: Task) -> TaskHeld:
    return TaskHeld(
        f"Task {task.id} is held by {task.holder} until {task.lease_expires_at}",
        task_id=task.id,
        holder=task.holder,
        generation=task.generation,
        lease_expires_at=task.lease_expires_at,
    )


def _has_gone(tx: Tx, holder: str) -> bool:
    agent = queries.get_agent(tx.db, holder)
    return agent is not None and agent.state == "gone"


def _take(tx: Tx, task: Task, holder: str, ttl_seconds: int | None, settings: TaskSettings) -> Task:
    taken = replace(
        task,
        status="claimed",
        holder=holder,
        generation=task.generation + 1,
        lease_expires_at=end_of(tx, ttl_seconds, settings.ttl_seconds, settings.ttl_seconds_max),
        updated_at=tx.ts,
        claimed_at=tx.ts,
    )
    _write(tx, taken)
    return taken


def _open_again(tx: Tx, task: Task) -> Task:
    opened = replace(task, status="open", holder=None, lease_expires_at=None, updated_at=tx.ts, claimed_at=None)
    _write(tx, opened)
    return opened


def _release(tx: Tx, task: Task, actor: str | None, reason: str | None) -> tuple[Task, int]:
    opened = _open_again(tx, task)
    payload = TaskReleased(opened, actor, reason, task.holder or "")
    return opened, _tell(tx, "task.released", opened, payload)


def _expire(tx: Tx, task: Task) -> Task:
    opened = _open_again(tx, task)
    _tell(tx, "task.expired", opened, TaskExpired(opened, task.holder or ""))
    return opened


def _write(tx: Tx, task: Task) -> None:
    tx.db.execute(
        _UPDATE,
        (
            task.status,
            task.holder,
            task.generation,
            task.lease_expires_at,
            task.updated_at,
            task.claimed_at,
            task.completed_at,
            task.result,
            task.id,
        ),
    )


def _tell(tx: Tx, name: str, task: Task, payload: object) -> int:
    return tx.append(Draft(name, task.id, payload, channel_id=task.channel_id, topic_id=task.topic_id))


def _again(tx: Tx, before: Earlier) -> TaskResult:
    """What the first request with the same key did, with the task as it is now."""
    return TaskResult(task_at(task_of(tx, before.entity_id), tx.ts), before.event_id, duplicate=True)
