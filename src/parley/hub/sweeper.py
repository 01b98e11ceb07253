"""The sweeper: writes down what time alone has changed.

Claims and leases that nobody renewed have ended at their end, and every read says so; the sweeper gives each its event.
Agents without a sign of life for too long are gone, and what they held is given back: one transaction for each agent,
so that nobody ever sees it gone and its work still held. What cannot be written now is tried again at the next look.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from parley.core.clock import iso
from parley.core.errors import ParleyError
from parley.hub.rules.agents import sweep_agent
from parley.hub.rules.leases import expire_leases
from parley.hub.rules.tasks import expire_tasks
from parley.workspace.queries.agents import silent_agents
from parley.workspace.queries.leases import ended_leases
from parley.workspace.queries.tasks import ended_tasks

if TYPE_CHECKING:
    from parley.hub.hub import Hub

BATCH: Final = 100
"""What one transaction writes down at most, so that sweeping never holds up a caller for long."""

STOP_SECONDS_MAX: Final = 5.0


class Sweeper:
    """One task per hub."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._refused: str | None = None

    async def run(self) -> None:
        """Looks again and again until it is cancelled."""
        settings, clock = self._hub.settings, self._hub.clock
        flush = clock.monotonic() + settings.agents.seen_flush_seconds
        while True:
            await asyncio.sleep(min(settings.leases.sweep_seconds, settings.agents.seen_flush_seconds))
            with_agents = clock.monotonic() >= flush
            if with_agents:
                flush = clock.monotonic() + settings.agents.seen_flush_seconds
            await self.look(with_agents=with_agents)

    async def look(self, *, with_agents: bool = True) -> None:
        """Writes down every end that has come, and with the agents also who was seen and who is gone."""
        try:
            await self._expire()
            if with_agents:
                await self._hub.presence.flush()
                await self._sweep_agents()
            self._refused = None
        except ParleyError as error:
            if error.code != self._refused:  # said once, not at every look
                self._hub.log.warning("not_swept", code=error.code)
            self._refused = error.code

    async def stop(self) -> None:
        """Writes down who was seen, for the next hub. A disk that hangs does not hold up the stop."""
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await self._hub.presence.flush()
        except (ParleyError, TimeoutError) as error:
            code = error.code if isinstance(error, ParleyError) else "TIMEOUT"
            self._hub.log.warning("signs_of_life_not_written", code=code)

    async def _expire(self) -> None:
        store, now = self._hub.store, iso(self._hub.clock.now_ms())
        for ended, expire in ((ended_tasks, expire_tasks), (ended_leases, expire_leases)):
            while store.read(partial(ended, now=now, limit=1)):
                if await store.write(partial(expire, limit=BATCH)) < BATCH:
                    break

    async def _sweep_agents(self) -> None:
        presence, store = self._hub.presence, self._hub.store
        if not presence.may_sweep:
            return
        since = presence.silent_since()
        for name in store.read(partial(silent_agents, since=since, limit=BATCH)):
            if presence.is_silent(name, since):
                await store.write(partial(sweep_agent, name=name, silent_since=since))
