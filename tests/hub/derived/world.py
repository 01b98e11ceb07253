"""Hubs with real plugins in the real sandbox, and what the tests of derived work ask of them."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from parley.core.clock import Clock, SystemClock, iso
from parley.core.settings import Settings
from parley.hub.derived.loading import PluginSource
from parley.sandbox import missing
from parley.workspace.layout import Workspace
from parley.workspace.plugins import measure
from parley.workspace.trust import TrustStore
from tests.hub.hubs import OpenHub, open_hub, rows, serve_hub, settings_of, workspace_in

DEADLINE_SECONDS = 60.0
needs_sandbox = pytest.mark.skipif(bool(missing()), reason="no sandbox here")
QUICK = {"retry_seconds": 0.01, "settle_ms": 5, "breaker_seconds": 0.2, "deadline_seconds": 30.0}
"""Waits that a test can sit through, and a deadline that no busy machine breaks by itself."""


def plugin(name: str, module: str | None = None, kind: str = "linkifier", **keys: Any) -> dict[str, Any]:
    """A ``[[plugins]]`` table."""
    return {"name": name, "type": kind, **({} if module is None else {"module": module}), **keys}


class PluginWorld:
    """A workspace with modules, and a home in which its trust is kept."""

    def __init__(self, folder: Path, modules: Mapping[str, str], plugins: Iterable[Mapping[str, Any]]) -> None:
        self.folder = folder
        self.home = folder.parent / f"{folder.name}-home"
        self.plugins: list[Mapping[str, Any]] = list(plugins)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in modules.items():
            (folder / name).write_text(text)

    def tables(self, tables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        tables = dict(tables or {})
        tables["plugin_defaults"] = {**QUICK, **tables.get("plugin_defaults", {})}
        return {**tables, "plugins": self.plugins}

    def trust(self, tables: Mapping[str, Any] | None = None) -> None:
        """What ``parley trust`` does."""
        workspace, settings = workspace_in(self.folder), settings_of(self.tables(tables))
        TrustStore(self.home).trust(workspace.root, measure(workspace, settings), iso(SystemClock().now_ms()))

    def source(self, workspace: Workspace, settings: Settings) -> PluginSource:
        return PluginSource(workspace, settings, self.home)

    @asynccontextmanager
    async def open(
        self,
        tables: Mapping[str, Any] | None = None,
        *,
        trusted: bool = True,
        served: bool = False,
        clock: Clock | None = None,
    ) -> AsyncGenerator["PluginHub"]:
        """A hub that runs the plugins; behind a socket if it is to be ``served``."""
        if trusted:
            self.trust(tables)
        opener = serve_hub if served else open_hub
        clock = clock or SystemClock()
        async with opener(self.folder, self.tables(tables), clock=clock, plugins=self.source) as opened:
            yield PluginHub(opened)


class PluginHub:
    """A running hub with a topic to post to."""

    def __init__(self, opened: OpenHub) -> None:
        self.opened = opened
        self.api = opened.api
        self.hub = opened.hub

    async def topic(self, name: str = "general") -> str:
        return await self.api.topic(await self.api.channel(name))

    async def health(self, name: str) -> dict[str, Any]:
        """What ``GET /api/v1/plugins`` says of one plugin."""
        (found,) = [each for each in (await self.api.get("/api/v1/plugins"))["plugins"] if each["name"] == name]
        return found

    async def settled(self, *names: str) -> None:
        """Returns when nothing waits for these plugins, or for any, and nothing of theirs is under way."""
        await until(lambda: self._nothing_waits(names))

    async def _nothing_waits(self, names: tuple[str, ...]) -> bool:
        plugins = (await self.api.get("/api/v1/plugins"))["plugins"]
        chosen = [each for each in plugins if not names or each["name"] in names]
        runners = self.hub.derived._runners
        busy = [each for each in chosen if each["name"] in runners and runners[each["name"]]._in_flight]
        return not busy and not any(each["waiting"] for each in chosen)

    async def under_way(self, name: str, message_id: str) -> None:
        """Returns when the plugin has been given the message."""
        runner = self.hub.derived._runners[name]
        await until(lambda: _value(message_id in runner._in_flight))

    async def found(self, message_id: str, plugin_name: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """What readers see of a message: the kind and the data of each enrichment."""
        found = (await self.api.get("/api/v1/enrichments", message_id=message_id))["enrichments"]
        return [(each["kind"], each["data"]) for each in found if plugin_name in (None, each["plugin_name"])]

    async def words(self, message_id: str, plugin_name: str = "words") -> list[tuple[str, int]]:
        """The words and versions that ``WORDS`` found."""
        return [(data["word"], data["version"]) for _, data in await self.found(message_id, plugin_name)]

    async def events(self, *names: str) -> list[dict[str, Any]]:
        return [event for event in await self.api.events() if event["name"] in names]

    async def event(self, name: str) -> dict[str, Any]:
        """The one event of this name, once it is there."""
        await until(lambda: self._has(name))
        (event,) = await self.events(name)
        return event

    async def _has(self, name: str) -> bool:
        return bool(await self.events(name))

    def jobs(self) -> list[tuple[Any, ...]]:
        return rows(
            self.opened.workspace, "SELECT message_id, plugin_name, state, attempts, problem FROM jobs ORDER BY id"
        )

    async def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, 0 if it was never counted."""
        text = (await self.api.client.get("/metrics")).text
        wanted = "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}" if labels else ""
        values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{name}{wanted} ")]
        return float(values[0]) if values else 0.0

    def logged(self, event: str) -> list[Any]:
        return [entry for entry in self.opened.log.entries if entry["event"] == event]


async def _value(value: bool) -> bool:
    return value


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what a plugin's process will bring about."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def all_processes() -> dict[int, int]:
    """Every process that the system shows now, with its parent."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    parents = all_processes()
    found: set[int] = set()
    reached = {pid}
    while reached:
        reached = {child for child, parent in parents.items() if parent in reached} - found
        found |= reached
    return found


def jails(pid: int | None = None) -> set[int]:
    """The processes of plugins below this process or another: those that live in a world of their own."""
    own = _world(os.getpid())
    return {each for each in descendants(pid or os.getpid()) if _world(each) not in (own, None)}


def _world(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:  # it ended meanwhile, or is about to
        return None


@contextmanager
def held_still() -> Generator[None]:
    """Stops this test's plugins, whatever they are doing; they go on at the end of the block."""
    held = {pid for pid in jails() if not descendants(pid)}
    assert held
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in held:
            os.kill(pid, signal.SIGCONT)
