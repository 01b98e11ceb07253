"""Handlers for tasks."""

from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from parley.core.clock import iso
from parley.core.errors import NotFound
from parley.core.limits import PAGE_LIMIT_DEFAULT
from parley.hub.http.reads import id_of, limit_of
from parley.hub.http.writes import once_of
from parley.hub.rules.idempotency import Once
from parley.hub.rules.tasks import (
    cancel_task,
    claim_next,
    claim_task,
    complete_task,
    create_task,
    release_task,
    renew_task,
    take_over_task,
)
from parley.hub.transaction import Tx
from parley.serve.endpoint import Answer, Call
from parley.wire.answers import OneTask, TaskResult, Tasks
from parley.wire.entities import TaskStatus
from parley.wire.paging import offset_cursor, parse_cursor
from parley.wire.requests import (
    CancelTask,
    ClaimNext,
    ClaimTask,
    CompleteTask,
    CreateTask,
    ReleaseTask,
    RenewTask,
    TakeOverTask,
)
from parley.workspace import queries
from parley.workspace.queries.tasks import task_at

if TYPE_CHECKING:
    from parley.hub.hub import Hub

STATUSES = ("all", *get_args(TaskStatus))


async def tasks(hub: "Hub", call: Call) -> Answer:
    limit = limit_of(hub, call, PAGE_LIMIT_DEFAULT)
    offset = parse_cursor(call.query.text("cursor"), "rows").offset or 0
    status = call.query.choice("status", STATUSES)
    read = partial(
        queries.list_tasks,
        now=iso(hub.clock.now_ms()),
        status=None if status == "all" else cast(TaskStatus, status),
        channel_id=id_of(call, "channel_id"),
        topic_id=id_of(call, "topic_id"),
        holder=call.query.text("holder"),
        limit=limit,
        offset=offset,
    )
    found, more = hub.store.read(read)
    return Answer(200, Tasks(found, more, offset_cursor(offset, limit, more)))


async def task(hub: "Hub", call: Call) -> Answer:
    task_id = call.path["task_id"]
    found = hub.store.read(partial(queries.get_task, task_id=task_id))
    if found is None:
        raise NotFound(f"Task not found: {task_id}", task_id=task_id)
    return Answer(200, OneTask(task_at(found, iso(hub.clock.now_ms()))))


async def post_task(hub: "Hub", call: Call) -> Answer:
    request = cast(CreateTask, call.body)
    fields = {
        "title": request.title,
        "sender": request.created_by,
        "channel_id": request.channel_id,
        "topic_id": request.topic_id,
    }
    once = once_of(call, "task.create", "", fields, request.description or "")
    result = await hub.store.write(lambda tx: create_task(tx, request, once))
    return Answer(200 if result.duplicate else 201, result)


async def post_claim_next(hub: "Hub", call: Call) -> Answer:
    request, settings = cast(ClaimNext, call.body), hub.settings.tasks
    fields = {"sender": request.holder, "channel_id": request.channel_id, "ttl_seconds": request.ttl_seconds}
    once = once_of(call, "task.claim_next", "", fields)
    return Answer(200, await hub.store.write(lambda tx: claim_next(tx, request, settings, once)))


async def patch_task(hub: "Hub", call: Call) -> Answer:
    task_id, request, settings = call.path["task_id"], call.body, hub.settings.tasks
    once = _once(call, task_id, request)

    def rule(tx: Tx) -> TaskResult:
        match request:
            case ClaimTask():
                return claim_task(tx, task_id, request, settings, once)
            case RenewTask():
                return renew_task(tx, task_id, request, settings, once)
            case ReleaseTask():
                return release_task(tx, task_id, request, once)
            case CompleteTask():
                return complete_task(tx, task_id, request, once)
            case CancelTask():
                return cancel_task(tx, task_id, request, once)
            case _:
                return take_over_task(tx, task_id, cast(TakeOverTask, request), settings, once)

    return Answer(200, await hub.store.write(rule))


def _once(call: Call, task_id: str, request: Any) -> Once | None:
    """The request's key with its fingerprint; what it says at length is its content."""
    fields = {name: getattr(request, name) for name in request.__struct_fields__ if name != "result"}
    kind = f"task.{request.__struct_config__.tag}"
    return once_of(call, kind, task_id, fields, getattr(request, "result", None) or "")
