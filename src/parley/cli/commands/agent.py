"""``parley agent``: who takes part in a workspace."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import AgentOption, LimitOption, ReasonOption
from parley.cli.plain import plain

if TYPE_CHECKING:
    from parley.wire.entities import Agent

app = group("Say who you are, and see who is here.")

SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="TEXT", help="What tells this session from others.")
]
ProgramOption = Annotated[str, typer.Option("--program", metavar="TEXT", help="The program that takes part.")]


@command(app, "list")
def list_agents(
    call: Call,
    state: Annotated[Literal["active", "gone"] | None, typer.Option("--state", help="Only these.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List the agents, the one last seen first."""
    from parley.workspace import queries

    with call.reading() as reading:
        agents, has_more = queries.list_agents(reading, state, limit=limit)
    if call.json:
        call.out.listing("agents", plain(agents), hasMore=has_more)
    else:
        call.out.table(
            ["name", "state", "program", "model", "last seen"],
            [[agent.name, agent.state, agent.program, agent.model, agent.last_seen_at] for agent in agents],
            empty="No agent has registered yet.",
            has_more=has_more,
        )


@command(app, "whoami")
def who_am_i(call: Call, program: ProgramOption = "parley", session: SessionOption = None) -> None:
    """Show the name that this session has in the workspace; nothing is registered."""
    from parley.client.identity import whoami

    identity = whoami(call.workspace(), program=program, session=session)
    if call.json:
        call.out.data(
            {
                "name": identity.name,
                "program": identity.program,
                "session": identity.session,
                "chosen": identity.chosen,
            }
        )
    else:
        call.out.line(identity.name)


@command(app, "register")
def register(
    call: Call,
    program: ProgramOption = "parley",
    model: Annotated[str | None, typer.Option("--model", metavar="TEXT", help="The model that it runs on.")] = None,
    session: SessionOption = None,
) -> None:
    """Take part as an agent, under the name that `parley agent whoami` shows."""
    with call.client() as client:
        agent = client.join(program, model=model, session=session)
    _show(call, agent)


@command(app, "heartbeat")
def heartbeat(call: Call, agent: AgentOption = None) -> None:
    """Give a sign of life."""
    name = call.agent(agent)
    with call.client(name) as client:
        result = client.heartbeat(name)
    _show(call, result.agent)


@command(app, "leave")
def leave(call: Call, agent: AgentOption = None, reason: ReasonOption = None) -> None:
    """Say goodbye; tasks and leases that the agent holds are given back."""
    name = call.agent(agent)
    with call.client() as client:
        result = client.leave(name, reason=reason)
    _show(call, result.agent)


def _show(call: Call, agent: "Agent") -> None:
    if call.json:
        call.out.data({"agent": plain(agent)})
    else:
        call.out.line(f"{agent.name}\t{agent.state}")
