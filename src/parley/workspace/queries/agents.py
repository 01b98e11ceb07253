"""Reading agents."""

from itertools import starmap
from typing import Any, Final

import apsw
import msgspec

from parley.core.limits import PAGE_LIMIT_MAX
from parley.wire.entities import Agent, AgentState

AGENT_COLUMNS: Final = "name, program, model, session, state, registered_at, last_seen_at"
_AGENT: Final = f"SELECT {AGENT_COLUMNS} FROM agents WHERE name = ?"
_OF_SESSION: Final = (
    f"SELECT {AGENT_COLUMNS} FROM agents WHERE session = ? ORDER BY state, last_seen_at DESC, name LIMIT 1"
)
_NEWEST: Final = "ORDER BY last_seen_at DESC, name LIMIT ? OFFSET ?"
_AGENTS: Final = f"SELECT {AGENT_COLUMNS} FROM agents {_NEWEST}"
_AGENTS_HERE: Final = f"SELECT {AGENT_COLUMNS} FROM agents WHERE state = 'active' {_NEWEST}"
_AGENTS_GONE: Final = f"SELECT {AGENT_COLUMNS} FROM agents WHERE state = 'gone' {_NEWEST}"
_SILENT: Final = "SELECT name FROM agents WHERE state = 'active' AND last_seen_at <= ? ORDER BY last_seen_at LIMIT ?"
_REGISTERED: Final = "SELECT name FROM agents WHERE name IN (SELECT value FROM json_each(?))"


def get_agent(connection: apsw.Connection, name: str) -> Agent | None:
    """One agent."""
    row: Any = connection.execute(_AGENT, (name,)).fetchone()
    return None if row is None else Agent(*row)


def agent_of_session(connection: apsw.Connection, session: str) -> Agent | None:
    """The agent whose session this is or was last; of several, one that is here."""
    row: Any = connection.execute(_OF_SESSION, (session,)).fetchone()
    return None if row is None else Agent(*row)


def list_agents(
    connection: apsw.Connection, state: AgentState | None = None, *, limit: int = PAGE_LIMIT_MAX, offset: int = 0
) -> tuple[list[Agent], bool]:
    """Agents, the one last seen first, and whether there are more. Those that are here are found by an index."""
    wanted = {None: _AGENTS, "active": _AGENTS_HERE, "gone": _AGENTS_GONE}[state]
    found = list(starmap(Agent, connection.execute(wanted, (limit + 1, offset))))
    return found[:limit], len(found) > limit


def silent_agents(connection: apsw.Connection, since: str, limit: int) -> list[str]:
    """Names of agents that are said to be here and were last seen at this time or earlier, the longest silent first."""
    rows: Any = connection.execute(_SILENT, (since, limit))
    return [name for (name,) in rows]


def registered(connection: apsw.Connection, names: list[str]) -> list[str]:
    """Those of the names that agents have."""
    rows: Any = connection.execute(_REGISTERED, (msgspec.json.encode(names).decode(),))
    return [name for (name,) in rows]
