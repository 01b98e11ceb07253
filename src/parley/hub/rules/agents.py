"""Agents: come, come back, leave, and be swept when they give no sign of life any more.

A name belongs to one session at a time. Whoever comes with the session that has it goes on as the same agent; whoever
comes with another one while the first seems alive is refused, and told a name that is free. An agent that is gone keeps
its row and its name, so that it comes back as who it was. Leaving and being swept give back all that the agent holds,
in the same transaction.
"""

from typing import Final

from msgspec.structs import replace

from parley.core.agent_names import made_name, next_name
from parley.core.errors import AgentNameTaken, NotFound
from parley.hub.rules.idempotency import Once, earlier, remember
from parley.hub.rules.leases import release_all_leases
from parley.hub.rules.presence import change_agent, return_agent, update_agent
from parley.hub.rules.tasks import release_all_tasks
from parley.hub.transaction import Tx
from parley.wire.answers import AgentResult
from parley.wire.entities import Agent
from parley.wire.events import AgentLeft, AgentRegistered, AgentSwept
from parley.wire.requests import LeaveAgent, RegisterAgent
from parley.workspace import queries
from parley.workspace.log import Draft
from parley.workspace.queries.agents import agent_of_session

GONE: Final = "the agent has gone"

_INSERT: Final = (
    "INSERT INTO agents (name, program, model, session, state, registered_at, last_seen_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def register_agent(tx: Tx, request: RegisterAgent, silent_since: str, once: Once | None = None) -> AgentResult:
    """Makes the agent, or lets it go on. One last seen at ``silent_since`` or before counts as gone already."""
    if (before := earlier(tx, once)) is not None:
        return AgentResult(agent_of(tx, before.entity_id), before.event_id, duplicate=True)
    there = _meant(tx, request)
    if there is None:
        name = request.name or _free_name(tx, made_name(request.session or tx.new_id("")))
        there = Agent(name, request.program, request.model, request.session, "active", tx.ts, tx.ts)
        tx.db.execute(_INSERT, _row(there))
        event_id = tx.append(Draft("agent.registered", name, AgentRegistered(there)))
        remember(tx, once, "agent.register", name, event_id)
        return AgentResult(there, event_id)
    here = there.state == "active" and there.last_seen_at > silent_since
    if here and there.session != request.session and not request.force:
        raise AgentNameTaken(
            f"{there.name} is the name of another session, last seen at {there.last_seen_at}",
            name=there.name,
            suggestion=_free_name(tx, there.name),
            last_seen_at=there.last_seen_at,
            program=there.program,
        )
    result = _go_on(tx, there, request)
    remember(tx, once, "agent.register", there.name, result.event_id)
    return result


def heartbeat_agent(tx: Tx, name: str, session: str | None) -> AgentResult:
    """A sign of life. Raises ``AgentNameTaken`` if another session goes by the name now."""
    agent = agent_of(tx, name)
    check_session(tx, agent, session)
    return return_agent(tx, name) or AgentResult(agent, None)


def leave_agent(tx: Tx, name: str, request: LeaveAgent, once: Once | None = None) -> AgentResult:
    """The agent says goodbye and gives back what it holds. Leaving again changes nothing."""
    if (before := earlier(tx, once)) is not None:
        return AgentResult(agent_of(tx, before.entity_id), before.event_id, duplicate=True)
    agent = agent_of(tx, name)
    check_session(tx, agent, request.session)
    event_id = None
    if agent.state == "active":
        agent = replace(agent, state="gone", last_seen_at=tx.ts)
        update_agent(tx, agent)
        released = _release_all(tx, name, request.reason or "the agent has left")
        event_id = tx.append(Draft("agent.left", name, AgentLeft(agent, request.reason, *released)))
    remember(tx, once, "agent.leave", name, event_id)
    return AgentResult(agent, event_id)


def sweep_agent(tx: Tx, name: str, silent_since: str) -> bool:
    """Marks an agent as gone and gives back what it holds, unless it was seen after all. Whether it was swept."""
    agent = queries.get_agent(tx.db, name)
    if agent is None or agent.state == "gone" or agent.last_seen_at > silent_since:
        return False
    agent = replace(agent, state="gone")
    update_agent(tx, agent)
    released = _release_all(tx, name, GONE)
    tx.append(Draft("agent.swept", name, AgentSwept(agent, *released)))
    return True


def agent_of(tx: Tx, name: str) -> Agent:
    """The agent. Raises ``NotFound``."""
    agent = queries.get_agent(tx.db, name)
    if agent is None:
        raise NotFound(f"Agent not found: {name}", agent=name)
    return agent


def check_session(tx: Tx, agent: Agent, session: str | None) -> None:
    """Refuses a session that no longer goes by the name. One that is not told is trusted."""
    if session is not None and session != agent.session:
        raise AgentNameTaken(
            f"{agent.name} is the name of another session now",
            name=agent.name,
            suggestion=_free_name(tx, agent.name),
            last_seen_at=agent.last_seen_at,
            program=agent.program,
        )


def _meant(tx: Tx, request: RegisterAgent) -> Agent | None:
    """The agent with the name, or without one the agent of the same session."""
    if request.name is not None:
        return queries.get_agent(tx.db, request.name)
    return None if request.session is None else agent_of_session(tx.db, request.session)


def _go_on(tx: Tx, there: Agent, request: RegisterAgent) -> AgentResult:
    now = replace(
        there,
        program=request.program or there.program,
        model=request.model or there.model,
        session=request.session,
        state="active",
        last_seen_at=max(there.last_seen_at, tx.ts),
    )
    if replace(now, last_seen_at=there.last_seen_at) == there:
        update_agent(tx, now)
        return AgentResult(now, None)
    if there.state == "gone":
        reason = "returned"
    elif there.session != now.session:
        reason = "another session"
    else:
        reason = "another program or model"
    return change_agent(tx, now, reason)


def _release_all(tx: Tx, name: str, reason: str) -> tuple[list[str], list[str]]:
    return release_all_tasks(tx, name, reason), release_all_leases(tx, name, reason)


def _free_name(tx: Tx, wanted: str) -> str:
    """The wanted name if nobody has it, else the next one that is free."""
    name = wanted
    while queries.get_agent(tx.db, name) is not None:
        name = next_name(name)
    return name


def _row(agent: Agent) -> tuple[str | None, ...]:
    return (
        agent.name,
        agent.program,
        agent.model,
        agent.session,
        agent.state,
        agent.registered_at,
        agent.last_seen_at,
    )
