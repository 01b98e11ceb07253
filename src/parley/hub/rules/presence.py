"""Signs of life: writing them down, and taking back in an agent that was thought to be gone.

Whoever claims, reserves or merely asks under an agent's name shows that the agent lives. One that was swept meanwhile
is here again from then on; what it held was given back and stays so.
"""

from typing import Final

from msgspec.structs import replace

from parley.hub.transaction import Tx
from parley.wire.answers import AgentResult
from parley.wire.entities import Agent
from parley.wire.events import AgentChanged
from parley.workspace import queries
from parley.workspace.log import Draft, encode_json

_UPDATE: Final = "UPDATE agents SET program = ?, model = ?, session = ?, state = ?, last_seen_at = ? WHERE name = ?"
# One statement for all signs of life since the last time; max, because the clock may have been set back.
_SEEN: Final = (
    "UPDATE agents SET last_seen_at = max(last_seen_at, seen.value) FROM json_each(?) AS seen"
    " WHERE agents.name = seen.key AND agents.state = 'active'"
)
_RETURNED: Final = (
    "SELECT agents.name FROM agents JOIN json_each(?) AS seen ON agents.name = seen.key WHERE agents.state = 'gone'"
)


def return_agent(tx: Tx, name: str) -> AgentResult | None:
    """An agent that was thought to be gone has done something: it is here again. None for anybody else."""
    agent = queries.get_agent(tx.db, name)
    if agent is None or agent.state == "active":
        return None
    return change_agent(tx, replace(agent, state="active", last_seen_at=tx.ts), "returned")


def write_seen(tx: Tx, seen: dict[str, str]) -> None:
    """Writes signs of life down. An agent that was thought to be gone is here again; an unknown name is passed over."""
    text = encode_json(seen).decode()
    for (name,) in tx.db.execute(_RETURNED, (text,)).fetchall():
        return_agent(tx, str(name))
    tx.db.execute(_SEEN, (text,))


def update_agent(tx: Tx, agent: Agent) -> None:
    """Writes the agent's row."""
    changed = (agent.program, agent.model, agent.session, agent.state, agent.last_seen_at, agent.name)
    tx.db.execute(_UPDATE, changed)


def change_agent(tx: Tx, agent: Agent, reason: str) -> AgentResult:
    """Writes the agent's row and tells of it."""
    update_agent(tx, agent)
    return AgentResult(agent, tx.append(Draft("agent.changed", agent.name, AgentChanged(agent, reason))))
