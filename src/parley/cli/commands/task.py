"""``parley task``: what is to be done, and who does it."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import (
    AgentOption,
    ChannelIdOption,
    ChannelOption,
    GenerationOption,
    LimitOption,
    ReasonOption,
    TtlOption,
    channel_of,
)
from parley.cli.plain import plain

if TYPE_CHECKING:
    from parley.client import Client
    from parley.wire.answers import NextTask, TaskResult

app = group("Create, claim and complete tasks.")

TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="The task, by its id or that of its topic.")]


@command(app, "list")
def list_tasks(
    call: Call,
    status: Annotated[
        Literal["open", "claimed", "completed", "cancelled"] | None, typer.Option("--status", help="Only these.")
    ] = None,
    channel: ChannelOption = None,
    channel_id: ChannelIdOption = None,
    holder: Annotated[str | None, typer.Option("--holder", metavar="NAME", help="Only what this agent has.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List tasks as they are now, the newest first."""
    from parley.core.clock import SystemClock, iso
    from parley.workspace import queries

    now = iso(SystemClock().now_ms())
    with call.reading() as reading:
        place = channel_of(reading, channel, channel_id)
        tasks, has_more = queries.list_tasks(
            reading, now=now, status=status, channel_id=place, holder=holder, limit=limit
        )
    if call.json:
        call.out.listing("tasks", plain(tasks), hasMore=has_more)
    else:
        call.out.table(
            ["id", "status", "holder", "until", "title"],
            [[task.id, task.status, task.holder, task.lease_expires_at, task.title] for task in tasks],
            empty="No tasks. Make one with `parley task create TITLE --channel CHANNEL`.",
            has_more=has_more,
        )


@command(app, "show")
def show(call: Call, task_id: TaskArgument) -> None:
    """Show one task as it is now."""
    with call.client() as client:
        task = client.get_task(task_id).task
    if call.json:
        call.out.data({"task": plain(task)})
    else:
        members = plain(task)
        call.out.table(["", ""], [[name, value] for name, value in members.items() if value is not None], empty="")


@command(app, "create")
def create(
    call: Call,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What is to be done, in a line.")],
    channel: ChannelOption = None,
    channel_id: ChannelIdOption = None,
    topic_id: Annotated[
        str | None, typer.Option("--topic-id", metavar="ID", help="The topic it belongs to; else one is made.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="More about it.")] = None,
    agent: AgentOption = None,
) -> None:
    """Create a task in a channel, or for a topic that is there."""
    with call.reading() as reading:
        place = channel_of(reading, channel, channel_id)
    with call.client(call.agent(agent)) as client:
        result = client.create_task(title, channel_id=place, topic_id=topic_id, description=description)
    _show(call, result)


@command(app, "claim")
def claim(
    call: Call,
    task_id: Annotated[
        str | None, typer.Argument(metavar="TASK", help="The task; without one, the oldest that is open.")
    ] = None,
    channel: ChannelOption = None,
    channel_id: ChannelIdOption = None,
    ttl: TtlOption = None,
    agent: AgentOption = None,
) -> None:
    """Take a task to work on it, or the next one that is open."""
    with call.reading() as reading:
        place = channel_of(reading, channel, channel_id)
    with call.client(call.agent(agent)) as client:
        if task_id is None:
            _show(call, client.claim_next_task(channel_id=place, ttl_seconds=ttl))
        else:
            _show(call, client.claim_task(task_id, ttl_seconds=ttl))


@command(app, "renew")
def renew(
    call: Call,
    task_id: TaskArgument,
    ttl: TtlOption = None,
    generation: GenerationOption = None,
    agent: AgentOption = None,
) -> None:
    """Go on holding a task."""
    with call.client(call.agent(agent)) as client:
        _show(call, client.renew_task(task_id, _generation(client, task_id, generation), ttl_seconds=ttl))


@command(app, "release")
def release(
    call: Call,
    task_id: TaskArgument,
    reason: ReasonOption = None,
    generation: GenerationOption = None,
    agent: AgentOption = None,
) -> None:
    """Give a task back; it is open again."""
    with call.client(call.agent(agent)) as client:
        _show(call, client.release_task(task_id, _generation(client, task_id, generation), reason=reason))


@command(app, "complete")
def complete(
    call: Call,
    task_id: TaskArgument,
    result: Annotated[str | None, typer.Option("--result", metavar="TEXT", help="What came of it.")] = None,
    generation: GenerationOption = None,
    agent: AgentOption = None,
) -> None:
    """Say that a task is done."""
    with call.client(call.agent(agent)) as client:
        _show(call, client.complete_task(task_id, _generation(client, task_id, generation), result))


@command(app, "cancel")
def cancel(call: Call, task_id: TaskArgument, reason: ReasonOption = None, agent: AgentOption = None) -> None:
    """Call a task off, whoever holds it."""
    with call.client(call.agent(agent)) as client:
        _show(call, client.cancel_task(task_id, reason=reason))


@command(app, "take-over")
def take_over(
    call: Call,
    task_id: TaskArgument,
    reason: ReasonOption = None,
    force: Annotated[bool, typer.Option("--force", help="Also from a holder that lives; needs --reason.")] = False,
    ttl: TtlOption = None,
    agent: AgentOption = None,
) -> None:
    """Take a task from a holder whose claim has ended or who has gone."""
    with call.client(call.agent(agent)) as client:
        _show(call, client.take_over_task(task_id, reason=reason, force=force, ttl_seconds=ttl))


def _generation(client: "Client", task_id: str, given: int | None) -> int:
    """The generation that was given, else the one that the task has now; the hub still looks at the holder."""
    return given if given is not None else client.get_task(task_id).task.generation


def _show(call: Call, result: "TaskResult | NextTask") -> None:
    task = result.task
    if call.json:
        call.out.data({"task": plain(task), "event_id": result.event_id})
    elif task is None:
        call.out.note("No task is open.")
    else:
        until = f"\tuntil {task.lease_expires_at}" if task.lease_expires_at else ""
        call.out.line(f"{task.id}\t{task.status}\tgeneration {task.generation}{until}")
