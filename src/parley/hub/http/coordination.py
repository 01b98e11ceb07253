"""The endpoints for agents, tasks and leases: a part of the table of endpoints."""

from typing import TYPE_CHECKING

from parley.core.errors import (
    AgentNameTaken,
    IdempotencyKeyReused,
    LeaseConflict,
    LeaseLost,
    NotFound,
    TaskClosed,
    TaskHeld,
    TaskNotHeld,
)
from parley.core.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX
from parley.hub.http import agents, leases, tasks
from parley.serve.endpoint import Endpoint, Param
from parley.wire import answers, requests

if TYPE_CHECKING:
    from parley.hub.hub import Hub

_LIMIT = Param("limit", "integer", "rows in the answer", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
_CURSOR = Param("cursor", "string", "the `cursor` of an earlier answer: continues after it")

COORDINATION: "tuple[Endpoint[Hub], ...]" = (
    Endpoint(
        "GET",
        "/api/v1/agents",
        agents.agents,
        "Agents, the one last seen first",
        {200: answers.Agents},
        (),
        (
            Param("state", "string", "only agents in this state", choices=agents.STATES),
            Param("limit", "integer", "rows in the answer", PAGE_LIMIT_MAX, 1, PAGE_LIMIT_MAX),
            _CURSOR,
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/agents",
        agents.post_agent,
        "Registers an agent, or lets it go on under its name",
        {201: answers.AgentResult, 200: answers.AgentResult},
        (AgentNameTaken, IdempotencyKeyReused),
        body=requests.RegisterAgent,
        takes_key=True,
    ),
    Endpoint("GET", "/api/v1/agents/{name}", agents.agent, "One agent", {200: answers.OneAgent}, (NotFound,)),
    Endpoint(
        "PATCH",
        "/api/v1/agents/{name}",
        agents.patch_agent,
        "A sign of life of an agent, or its goodbye",
        {200: answers.AgentResult},
        (NotFound, AgentNameTaken, IdempotencyKeyReused),
        body=requests.PatchAgent,
        takes_key=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/tasks",
        tasks.tasks,
        "Tasks as they are now, newest first",
        {200: answers.Tasks},
        (),
        (
            Param("status", "string", "only tasks with this status", choices=tasks.STATUSES),
            Param("channel_id", "string", "only tasks of this channel"),
            Param("topic_id", "string", "only the task of this topic, if it has one"),
            Param("holder", "string", "only tasks that this agent holds or has completed"),
            _LIMIT,
            _CURSOR,
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/tasks",
        tasks.post_task,
        "Creates a task, and its topic unless one is given",
        {201: answers.TaskResult, 200: answers.TaskResult},
        (NotFound, IdempotencyKeyReused),
        body=requests.CreateTask,
        takes_key=True,
    ),
    Endpoint(
        "POST",
        "/api/v1/tasks/claim_next",
        tasks.post_claim_next,
        "Claims the oldest open task, in a channel or in any",
        {200: answers.NextTask},
        (NotFound, IdempotencyKeyReused),
        body=requests.ClaimNext,
        takes_key=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/tasks/{task_id}",
        tasks.task,
        "One task, by its id or that of its topic",
        {200: answers.OneTask},
        (NotFound,),
    ),
    Endpoint(
        "PATCH",
        "/api/v1/tasks/{task_id}",
        tasks.patch_task,
        "Claims, renews, releases, completes, cancels or takes over a task",
        {200: answers.TaskResult},
        (NotFound, TaskHeld, TaskNotHeld, TaskClosed, IdempotencyKeyReused),
        body=requests.PatchTask,
        takes_key=True,
    ),
    Endpoint(
        "GET",
        "/api/v1/leases",
        leases.leases,
        "Leases of paths as they are now, newest first",
        {200: answers.Leases},
        (),
        (
            Param("status", "string", "only leases with this status", choices=leases.STATUSES),
            Param("holder", "string", "only leases of this agent"),
            _LIMIT,
            _CURSOR,
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/leases",
        leases.post_lease,
        "Reserves paths, all of them or none",
        {201: answers.LeaseResult, 200: answers.LeaseResult},
        (LeaseConflict, IdempotencyKeyReused),
        body=requests.AcquireLease,
        takes_key=True,
    ),
    Endpoint(
        "POST",
        "/api/v1/leases/check",
        leases.check_paths,
        "Whose leases are in the way of some paths",
        {200: answers.PathsChecked},
        body=requests.CheckPaths,
    ),
    Endpoint("GET", "/api/v1/leases/{lease_id}", leases.lease, "One lease", {200: answers.OneLease}, (NotFound,)),
    Endpoint(
        "PATCH",
        "/api/v1/leases/{lease_id}",
        leases.patch_lease,
        "Renews or releases a lease",
        {200: answers.LeaseResult},
        (NotFound, LeaseLost, IdempotencyKeyReused),
        body=requests.PatchLease,
        takes_key=True,
    ),
)
