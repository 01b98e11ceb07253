"""Dividing work: tasks that one agent at a time holds, paths that agents reserve, and who is here.

Whoever holds something passes on the generation that it came with. A model may leave it out; then it is looked up, and
counts only while the agent itself is the holder.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from msgspec import Meta

from parley.client import AsyncClient
from parley.core.errors import IdempotencyKeyReused, InvalidInput, Refused
from parley.core.limits import PAGE_LIMIT_MAX
from parley.mcp.choices import chosen_before, forget_chosen, keep_chosen
from parley.mcp.context import AgentContext
from parley.mcp.link import key_of_part, new_key
from parley.mcp.results import Entry, Result, listing
from parley.mcp.toolbox import Arguments, Channel, Detail, Key, Tool, Topic
from parley.mcp.tools.entries import agent_entry, lease_entry, task_entry
from parley.mcp.tools.places import channel_made, channel_named
from parley.wire.entities import Lease, Task
from parley.wire.paging import parse_cursor

TaskId = Annotated[str, Meta(description="task id")]
Generation = Annotated[int, Meta(description="of your claim or lease")]
Seconds = Annotated[int, Meta(ge=1, description="how long it lasts")]
Limit = Annotated[int, Meta(ge=1, le=200)]


class Tasks(Arguments, frozen=True):
    status: Literal["open", "claimed", "completed", "cancelled", "all"] = "open"
    mine: bool = False
    channel: Channel | None = None
    cursor: str | None = None
    limit: Limit = 20
    detail: Detail = "short"


async def tasks(context: AgentContext, given: Tasks) -> Result:
    start = parse_cursor(given.cursor, "rows").offset or 0

    async def page(client: AsyncClient) -> Result:
        channel_id = None if given.channel is None else (await channel_named(client, given.channel)).id
        found = await client.list_tasks(
            status=None if given.mine or given.status == "all" else given.status,
            holder=context.agent if given.mine else None,
            channel_id=channel_id,
            limit=given.limit,
            cursor=given.cursor,
        )
        entries = [task_entry(context, task, given.detail) for task in found.tasks]

        def ending(taken: int) -> dict[str, object]:
            more = found.has_more or taken < len(entries)
            return {"has_more": more, "cursor": f"o.{start + taken}" if more else None}

        head = Entry({}, f"{len(entries)} tasks")
        return listing("tasks", entries, head=head, bytes_max=context.result_bytes_max, ending=ending)

    return await context.link.call(page)


class AddTask(Arguments, frozen=True):
    title: str
    description: str | None = None
    channel: Annotated[str, Meta(description="name; made if missing")] | None = None
    topic: Topic | None = None
    idempotency_key: Key = None


async def add_task(context: AgentContext, given: AddTask) -> Result:
    key = given.idempotency_key or new_key()
    if (given.channel is None) == (given.topic is None):
        raise InvalidInput("Give channel, or the topic that the task is about", field="channel")

    async def make(client: AsyncClient) -> Task:
        channel = None if given.channel is None else await channel_made(client, given.channel, key)
        made = await client.create_task(
            given.title,
            channel_id=None if channel is None else channel.id,
            topic_id=given.topic,
            description=given.description,
            idempotency_key=key,
        )
        return made.task

    return _one_task(context, await context.link.call(make), key)


class ClaimTask(Arguments, frozen=True):
    task: Annotated[str, Meta(description="task id; without it, the oldest open one")] | None = None
    channel: Channel | None = None
    ttl_seconds: Seconds | None = None
    idempotency_key: Key = None


async def claim_task(context: AgentContext, given: ClaimTask) -> Result:
    key = given.idempotency_key or new_key()

    async def claim(client: AsyncClient) -> Task | None:
        if given.task is None:
            channel_id = None if given.channel is None else (await channel_named(client, given.channel)).id
            return (
                await client.claim_next_task(channel_id=channel_id, ttl_seconds=given.ttl_seconds, idempotency_key=key)
            ).task
        return await _claimed_or_renewed(context, client, given.task, given.ttl_seconds, key)

    return _one_task(context, await context.link.call(claim), key)


class CompleteTask(Arguments, frozen=True):
    task: TaskId
    result: Annotated[str, Meta(description="what came of it, or why not")] | None = None
    give_back: Annotated[bool, Meta(description="not done: open for others")] = False
    generation: Generation | None = None
    idempotency_key: Key = None


async def complete_task(context: AgentContext, given: CompleteTask) -> Result:
    key = given.idempotency_key or new_key()

    async def finish(client: AsyncClient) -> Task:
        if given.give_back:
            return await _given_back(context, client, given, key)
        generation = given.generation
        if generation is None:
            generation = (await client.get_task(given.task)).task.generation
        return (await client.complete_task(given.task, generation, given.result, idempotency_key=key)).task

    return _one_task(context, await context.link.call(finish), key)


class LeasePaths(Arguments, frozen=True):
    paths: Annotated[list[str], Meta(min_length=1, description="relative to the workspace; * ** ? [] work")]
    mode: Literal["exclusive", "shared"] = "exclusive"
    reason: str | None = None
    ttl_seconds: Seconds | None = None
    idempotency_key: Key = None


async def lease(context: AgentContext, given: LeasePaths) -> Result:
    key = given.idempotency_key or new_key()
    taken = await context.link.call(
        lambda client: client.acquire_lease(
            given.paths, mode=given.mode, reason=given.reason, ttl_seconds=given.ttl_seconds, idempotency_key=key
        )
    )
    return _leases(context, [taken.lease], key)


class Release(Arguments, frozen=True):
    lease: Annotated[str, Meta(description="lease id; without it, all of yours")] | None = None
    generation: Generation | None = None
    idempotency_key: Key = None


async def release(context: AgentContext, given: Release) -> Result:
    key = given.idempotency_key or new_key()

    async def give_back(client: AsyncClient) -> list[Lease]:
        released: list[Lease] = []
        for lease_id in [given.lease] if given.lease is not None else await _all_held(context, client, key):
            generation = given.generation
            if generation is None:
                generation = (await client.get_lease(lease_id)).lease.generation
            own_key = key_of_part(key, lease_id) if given.lease is None else key
            answer = await client.release_lease(lease_id, generation, idempotency_key=own_key)
            released.append(answer.lease)
        return released

    return _leases(context, await context.link.call(give_back), key)


class Who(Arguments, frozen=True):
    gone: Annotated[bool, Meta(description="also those who left")] = False
    cursor: str | None = None


async def who(context: AgentContext, given: Who) -> Result:
    start = parse_cursor(given.cursor, "rows").offset or 0

    async def look(client: AsyncClient) -> Result:
        found = await client.list_agents(state=None if given.gone else "active", cursor=given.cursor)
        agents = found.agents
        claimed = (await client.list_tasks(status="claimed", limit=PAGE_LIMIT_MAX)).tasks
        leases = (await client.list_leases(limit=PAGE_LIMIT_MAX)).leases
        entries = [
            agent_entry(
                context,
                agent,
                [task for task in claimed if task.holder == agent.name],
                [lease for lease in leases if lease.holder == agent.name],
            )
            for agent in agents
        ]

        def ending(taken: int) -> dict[str, object]:
            more = found.cursor is not None or taken < len(entries)
            return {"has_more": more, "cursor": f"o.{start + taken}" if more else None}

        head = Entry({"you": context.agent}, f"{len(agents)} agents")
        return listing("agents", entries, head=head, bytes_max=context.result_bytes_max, ending=ending)

    return await context.link.call(look)


TOOLS = (
    Tool("tasks", "List tasks.", Tasks, tasks),
    Tool("add_task", "Create a task with a topic of its own, or for a topic.", AddTask, add_task, writes=True),
    Tool(
        "claim_task",
        "Take a task, as the only one; again to keep it longer.",
        ClaimTask,
        claim_task,
        writes=True,
    ),
    Tool("complete_task", "Finish a task that you hold, or give it back.", CompleteTask, complete_task, writes=True),
    Tool("lease", "Reserve paths before you edit them; again to keep them longer.", LeasePaths, lease, writes=True),
    Tool("release", "Give leased paths back.", Release, release, writes=True),
    Tool("who", "Who is here, and what each holds.", Who, who),
)


async def _claimed_or_renewed(
    context: AgentContext, client: AsyncClient, task_id: str, ttl: int | None, key: str
) -> Task:
    """The task, held for longer if the agent held it when the call was first made, and claimed if it did not."""

    async def held() -> list[str]:
        task = (await client.get_task(task_id)).task
        return [str(task.generation)] if task.status == "claimed" and task.holder == context.agent else []

    async with _choosing(context, f"claim {task_id} {key}", held) as generations:
        for generation in generations:
            return (await client.renew_task(task_id, int(generation), ttl_seconds=ttl, idempotency_key=key)).task
        return (await client.claim_task(task_id, ttl_seconds=ttl, idempotency_key=key)).task


async def _given_back(context: AgentContext, client: AsyncClient, given: CompleteTask, key: str) -> Task:
    """The task, open again; others may have claimed it since, so the claim that is meant is the first call's."""

    async def meant() -> list[str]:
        generation = given.generation
        return [str((await client.get_task(given.task)).task.generation if generation is None else generation)]

    async with _choosing(context, f"give back {given.task} {given.generation} {key}", meant) as (generation,):
        back = await client.release_task(given.task, int(generation), reason=given.result, idempotency_key=key)
    return back.task


async def _all_held(context: AgentContext, client: AsyncClient, key: str) -> list[str]:
    """The leases that the agent held when it first said, with this key, that it gives all of them back."""

    async def held() -> list[str]:
        return [lease.id for lease in (await client.list_leases(holder=context.agent, limit=PAGE_LIMIT_MAX)).leases]

    async with _choosing(context, key, held) as leases:
        return leases


@asynccontextmanager
async def _choosing(
    context: AgentContext, key: str, choose: Callable[[], Awaitable[list[str]]]
) -> AsyncGenerator[list[str]]:
    """What the first call with this key chose. Where the hub refuses what is made of it, the next call chooses anew."""
    folder = context.link.workspace.agents
    chosen = await asyncio.to_thread(chosen_before, folder, context.agent, key)
    if chosen is None:
        chosen = await choose()
        await asyncio.to_thread(keep_chosen, folder, context.agent, key, chosen)
    try:
        yield chosen
    except IdempotencyKeyReused:  # the key has done something already, perhaps with this choice
        raise
    except Refused:
        await asyncio.to_thread(forget_chosen, folder, context.agent, key)
        raise


def _one_task(context: AgentContext, task: Task | None, key: str) -> Result:
    rows = [] if task is None else [task_entry(context, task)]
    head = Entry({}, "" if rows else "No task is open")
    return _written(context, "tasks", rows, head, key)


def _leases(context: AgentContext, leases: list[Lease], key: str) -> Result:
    rows = [lease_entry(context, each) for each in leases]
    return _written(context, "leases", rows, Entry({}, "" if rows else "You hold no lease"), key)


def _written(context: AgentContext, key_of_rows: str, rows: list[Entry], head: Entry, key: str) -> Result:
    ending: dict[str, Any] = {"idempotency_key": key}
    return listing(key_of_rows, rows, head=head, bytes_max=context.result_bytes_max, ending=lambda taken: ending)
