"""Handlers for agents."""

from functools import partial
from typing import TYPE_CHECKING, cast, get_args

from parley.core.errors import NotFound
from parley.core.limits import PAGE_LIMIT_MAX
from parley.hub.http.reads import limit_of
from parley.hub.http.writes import once_of
from parley.hub.rules.agents import heartbeat_agent, leave_agent, register_agent
from parley.serve.endpoint import Answer, Call
from parley.wire.answers import AgentResult, Agents, OneAgent
from parley.wire.entities import AgentState
from parley.wire.paging import offset_cursor, parse_cursor
from parley.wire.requests import HeartbeatAgent, LeaveAgent, RegisterAgent
from parley.workspace import queries

if TYPE_CHECKING:
    from parley.hub.hub import Hub

STATES = ("all", *get_args(AgentState))


async def agents(hub: "Hub", call: Call) -> Answer:
    chosen = call.query.choice("state", STATES)
    state = None if chosen == "all" else cast(AgentState, chosen)
    limit = limit_of(hub, call, PAGE_LIMIT_MAX)
    offset = parse_cursor(call.query.text("cursor"), "rows").offset or 0
    page, more = hub.store.read(partial(queries.list_agents, state=state, limit=limit, offset=offset))
    found = sorted(hub.presence.current(page), key=lambda agent: agent.last_seen_at, reverse=True)
    return Answer(200, Agents(found, offset_cursor(offset, limit, more)))


async def agent(hub: "Hub", call: Call) -> Answer:
    name = call.path["name"]
    found = hub.store.read(partial(queries.get_agent, name=name))
    if found is None:
        raise NotFound(f"Agent not found: {name}", agent=name)
    return Answer(200, OneAgent(hub.presence.current([found])[0]))


async def post_agent(hub: "Hub", call: Call) -> Answer:
    request = cast(RegisterAgent, call.body)
    fields = {
        "name": request.name,
        "program": request.program,
        "model": request.model,
        "session": request.session,
        "force": request.force or None,
    }
    once = once_of(call, "agent.register", "", fields)
    await hub.presence.flush()  # whether another session is alive is decided by what is written down
    since = hub.presence.silent_since()
    result = await hub.store.write(lambda tx: register_agent(tx, request, since, once))
    new = result.event_id is not None and not result.duplicate
    return Answer(201 if new else 200, result)


async def patch_agent(hub: "Hub", call: Call) -> Answer:
    name = call.path["name"]
    if isinstance(call.body, HeartbeatAgent):
        return Answer(200, await _heartbeat(hub, name, call.body.session))
    request = cast(LeaveAgent, call.body)
    once = once_of(call, "agent.leave", name, {"session": request.session, "reason": request.reason})
    result = await hub.store.write(lambda tx: leave_agent(tx, name, request, once))
    hub.presence.forget(name)
    return Answer(200, result)


async def _heartbeat(hub: "Hub", name: str, session: str | None) -> AgentResult:
    """Writes only if there is something to change or to refuse: it is called often."""
    found = hub.store.read(partial(queries.get_agent, name=name))
    if found is None or found.state == "gone" or session not in (None, found.session):
        return await hub.store.write(lambda tx: heartbeat_agent(tx, name, session))
    hub.presence.saw(name)
    return AgentResult(hub.presence.current([found])[0], None)
