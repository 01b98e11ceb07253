"""Who was here when: signs of life, kept in memory and written down every few seconds.

Every request that names its agent is a sign of life, and so is a feed that is open. Writing each of them would make
every read a write; so a request costs one entry in a dictionary, and the table is brought up to date by the sweeper and
at a stop. A crash loses a few seconds of them at most, which makes an agent look a little more silent than it was. It
is not called gone for that: after a start everybody has the full time to show up.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from parley.core.clock import iso
from parley.core.errors import ParleyError
from parley.hub.rules.presence import write_seen
from parley.wire.entities import Agent
from parley.workspace.queries.agents import registered

if TYPE_CHECKING:
    from parley.hub.hub import Hub

MINUTE_MS = 60_000


class Presence:
    """The signs of life that are not written down yet."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._seen: dict[str, int] = {}

    def saw(self, name: str) -> None:
        """Somebody did something under this name. On the path of every request, so it does nothing else."""
        self._seen[name] = self._hub.clock.now_ms()

    def forget(self, name: str) -> None:
        """The agent has said goodbye; what it did until then is no sign that it came back."""
        self._seen.pop(name, None)

    def current(self, agents: Iterable[Agent]) -> list[Agent]:
        """The agents with what was seen of them since the table was written."""
        return [self._current(agent) for agent in agents]

    def silent_since(self) -> str:
        """Whoever was last seen then or before is gone, if this hub has been there since."""
        return iso(self._hub.clock.now_ms() - self._gone_after_ms)

    @property
    def may_sweep(self) -> bool:
        """Whether everybody has had the time to show up since the start."""
        return self._hub.uptime_seconds * 1000 >= self._gone_after_ms

    def is_silent(self, name: str, since: str) -> bool:
        """Whether nothing was seen under this name after a time, as far as memory goes."""
        return iso(self._seen.get(name, 0)) <= since

    async def flush(self) -> None:
        """Writes down what was seen of registered agents. Refused, it is kept for the next time."""
        for name in self._hub.agents_on_feeds():
            self.saw(name)
        seen, self._seen = self._seen, {}
        known = set(self._hub.store.read(partial(registered, names=list(seen)))) if seen else set[str]()
        seen = {name: at_ms for name, at_ms in seen.items() if name in known}
        if not seen:
            return
        marks = {name: iso(at_ms) for name, at_ms in seen.items()}
        try:
            await self._hub.store.write(lambda tx: write_seen(tx, marks))
        except ParleyError:
            self._seen = seen | self._seen
            raise

    @property
    def _gone_after_ms(self) -> int:
        return round(self._hub.settings.agents.gone_after_minutes * MINUTE_MS)

    def _current(self, agent: Agent) -> Agent:
        at_ms = self._seen.get(agent.name)
        return agent if at_ms is None else replace(agent, last_seen_at=max(agent.last_seen_at, iso(at_ms)))
