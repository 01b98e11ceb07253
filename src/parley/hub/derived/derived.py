"""All plugins of a running hub: which run, which do not and why, and the work that waits for each.

Jobs are also written for a plugin that cannot run now, because nobody has trusted it yet or its module is broken: once
it can, it finds all that it missed. Jobs of a plugin that is no longer configured are dropped at the start.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from parley.core.errors import NotFound, ParleyError
from parley.hub.derived.loading import PluginSource
from parley.hub.derived.runner import PluginRunner, failure_draft
from parley.hub.rules.jobs import Backlog, Queue, backlog, drop_jobs_of_others, plugins_with_jobs, queue_history
from parley.plugin.session import PluginSession
from parley.wire.answers import PluginHealth, PluginWork
from parley.workspace.log import StoredEvent
from parley.workspace.plugins import LoadedPlugin

if TYPE_CHECKING:
    from parley.hub.hub import Hub

HISTORY_STEP: Final = 1_000
"""Events looked through in one write while history is queued again; other writes pass in between."""
_QUEUES: Final = frozenset({"message.created", "message.edited"})


class Derived:
    """The plugins of one hub."""

    def __init__(self, hub: "Hub", source: PluginSource | None) -> None:
        self._hub = hub
        self._source = source
        self._plugins = () if source is None else source.plugins
        self._runners: dict[str, PluginRunner] = {}
        self._announcing: set[asyncio.Task[int]] = set()
        wanted = tuple(plugin.name for plugin in self._plugins if plugin.state != "disabled")
        self.queue = Queue(wanted, hub.settings.plugin_defaults.settle_ms)

    async def start(self) -> None:
        """Forgets plugins that are gone, tells of those that do not run, and starts the others on what waits."""
        if self._plugins or self._hub.store.read(plugins_with_jobs):
            await self._drop_jobs_of_others()
        self._start_those_ready()
        for plugin in self._plugins:
            self._tell_if_not_run(plugin)

    def look_for_trust(self) -> None:
        """Starts the plugins that somebody has trusted since. What is revoked runs on until the hub stops."""
        if self._source is None or all(plugin.state != "untrusted" for plugin in self._plugins):
            return
        if self._source.look_again():
            before, self._plugins = self._plugins, self._source.plugins
            self._start_those_ready()
            for old, new in zip(before, self._plugins, strict=True):
                if old.state == "untrusted" and new.state == "broken":  # nobody looks into a module before that
                    self._tell_if_not_run(new)

    async def stop(self) -> None:
        """Ends every plugin's processes; their jobs stay in the table."""
        await asyncio.gather(*(runner.stop() for runner in self._runners.values()))
        await asyncio.gather(*self._announcing, return_exceptions=True)  # what fails is told by ``_announced``

    def saw(self, events: Iterable[StoredEvent]) -> None:
        """Events were committed; some may have come with jobs."""
        if self._runners and any(event.draft.name in _QUEUES for event in events):
            self.wake()

    def wake(self) -> None:
        """There may be new jobs."""
        for runner in self._runners.values():
            runner.wake()

    def announce_failure(self, plugin_name: str, reason: str) -> None:
        """Appends the event that a plugin was disabled. If the writer refuses, the log file has it all the same."""
        write = self._hub.store.write(lambda tx: tx.append(failure_draft(plugin_name, reason)))
        task = asyncio.ensure_future(write)
        self._announcing.add(task)
        task.add_done_callback(self._announced)

    def health(self) -> list[PluginHealth]:
        """How each plugin is, in the order of the settings."""
        return [self._health_of(plugin) for plugin in self._plugins]

    def work(self) -> PluginWork:
        """What waits and what failed, of all plugins together."""
        backlogs = [self._backlog(plugin) for plugin in self._plugins]
        return PluginWork(
            sum(each.waiting for each in backlogs),
            sum(each.failed for each in backlogs),
            max((each.oldest_waiting_seconds for each in backlogs), default=0.0),
        )

    async def queue_again(self, since_event_id: int, plugin_name: str | None) -> int:
        """Queues the messages posted or edited after an event for one plugin, or for all; how many jobs that made."""
        names = [name for name in self.queue.plugins if plugin_name in (None, name)]
        if plugin_name is not None and not names:
            raise NotFound(f"No enabled plugin is called {plugin_name}", plugin_name=plugin_name)
        queued, latest = 0, self._hub.feed.latest
        for after in range(since_event_id, latest, HISTORY_STEP):
            until = min(after + HISTORY_STEP, latest)
            queued += await self._hub.store.write(partial(queue_history, plugins=names, after=after, until=until))
            self.wake()
        return queued

    async def _drop_jobs_of_others(self) -> None:
        names = [plugin.name for plugin in self._plugins]
        try:
            dropped = await self._hub.store.write(lambda tx: drop_jobs_of_others(tx, names))
        except ParleyError as error:  # a full disk must not keep the hub from serving reads
            self._hub.log.warning("jobs_not_dropped", code=error.code)
            return
        if dropped:
            self._hub.log.warning("jobs_dropped", jobs=dropped, reason="their plugins are no longer configured")

    def _tell_if_not_run(self, plugin: LoadedPlugin) -> None:
        if plugin.state in ("untrusted", "broken"):
            self._hub.log.warning("plugin_not_run", plugin=plugin.name, state=plugin.state, problem=plugin.problem)
        if plugin.state == "broken":
            self.announce_failure(plugin.name, plugin.problem or "")

    def _start_those_ready(self) -> None:
        for plugin in self._plugins:
            if plugin.state == "ready" and plugin.name not in self._runners:
                self._runners[plugin.name] = PluginRunner(self._hub, plugin, partial(self._open_session, plugin))
                self._runners[plugin.name].wake()

    def _open_session(self, plugin: LoadedPlugin) -> PluginSession:
        settings = self._hub.settings
        return PluginSession(
            plugin,
            settings.plugin_defaults,
            self._hub.clock,
            hidden=(self._hub.workspace.state,),
            attachment_bytes_max=settings.limits.attachment_bytes_max,
        )

    def _backlog(self, plugin: LoadedPlugin) -> Backlog:
        return self._hub.store.read(partial(backlog, plugin=plugin.name, now_ms=self._hub.clock.now_ms()))

    def _health_of(self, plugin: LoadedPlugin) -> PluginHealth:
        waiting, failed, oldest = self._backlog(plugin)
        runner = self._runners.get(plugin.name)
        settings = plugin.settings
        return PluginHealth(
            plugin.name,
            settings.type,
            plugin.source,
            "paused" if runner is not None and runner.paused else plugin.state,
            plugin.problem,
            settings.network,
            settings.deadline_seconds or self._hub.settings.plugin_defaults.deadline_seconds,
            waiting,
            failed,
            round(oldest, 3),
            runner.runs_total if runner is not None else 0,
            runner.failures_total if runner is not None else 0,
            runner.last_error if runner is not None else None,
        )

    def _announced(self, task: "asyncio.Task[int]") -> None:
        self._announcing.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ParleyError):
            self._hub.log.warning("plugin_failure_not_announced", code=error.code)
        elif error is not None:
            self._hub.log.error("plugin_failure_not_announced", exc_info=error)
