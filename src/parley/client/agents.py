"""What a client can ask about agents: to come, to be here, to leave, and who is here."""

from typing import TYPE_CHECKING

from parley.client.call import Call, Caller, Read, check_limit, encoded, mutation, own_name, query_text, segment
from parley.core import limits
from parley.core.errors import NotFound
from parley.wire import requests
from parley.wire.answers import AgentResult, Agents, OneAgent
from parley.wire.entities import AgentState
from parley.wire.paging import offset_cursor, parse_cursor
from parley.workspace import queries

if TYPE_CHECKING:
    import apsw


def register_agent(
    caller: Caller,
    name: str | None = None,
    *,
    program: str | None = None,
    model: str | None = None,
    session: str | None = None,
    force: bool = False,
    idempotency_key: str | None = None,
) -> Call[AgentResult]:
    """Registers an agent, or lets it go on: the same name and session are the same agent.

    Without a name it is the agent of that session, or a new one whose name the hub makes up. A name that another living
    session has raises ``AgentNameTaken``, whose details suggest a free one; ``force`` takes it nevertheless.
    """
    body = requests.RegisterAgent(name, program, model, session, force)
    return mutation(caller, "POST", "/api/v1/agents", AgentResult, body, idempotency_key)


def heartbeat(caller: Caller, name: str | None = None, *, session: str | None = None) -> Call[AgentResult]:
    """A sign of life, by default of the client's own name. Every request made with ``agent=`` is one, too."""
    path = f"/api/v1/agents/{segment(own_name(caller, name, 'name'))}"
    return Call("PATCH", path, AgentResult, encoded(requests.HeartbeatAgent(session)))


def leave(
    caller: Caller,
    name: str | None = None,
    *,
    session: str | None = None,
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Call[AgentResult]:
    """Says goodbye: the agent is gone, and the tasks and leases that it holds are given back."""
    path = f"/api/v1/agents/{segment(own_name(caller, name, 'name'))}"
    return mutation(caller, "PATCH", path, AgentResult, requests.LeaveAgent(session, reason), idempotency_key)


def list_agents(
    _caller: Caller,
    *,
    state: AgentState | None = None,
    limit: int = limits.PAGE_LIMIT_MAX,
    cursor: str | None = None,
) -> Read[Agents]:
    """Agents, the one last seen first; from the file, a sign of life may be some seconds old."""
    check_limit(limit)
    offset = parse_cursor(cursor, "rows").offset or 0

    def from_file(connection: "apsw.Connection") -> Agents:
        found, more = queries.list_agents(connection, state, limit=limit, offset=offset)
        return Agents(found, offset_cursor(offset, limit, more))

    path = "/api/v1/agents" + query_text(state=state, limit=limit, cursor=cursor)
    return Read("GET", path, Agents, from_file=from_file)


def get_agent(_caller: Caller, name: str) -> Read[OneAgent]:
    """One agent."""

    def from_file(connection: "apsw.Connection") -> OneAgent:
        found = queries.get_agent(connection, name)
        if found is None:
            raise NotFound(f"Agent not found: {name}", agent=name)
        return OneAgent(found)

    return Read("GET", f"/api/v1/agents/{segment(name)}", OneAgent, from_file=from_file)
