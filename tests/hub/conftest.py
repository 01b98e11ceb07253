"""Hubs that a test can open with the settings it wants; all of them are closed at its end."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from parley.core.clock import Clock
from tests.hub.coordination import Team
from tests.hub.hubs import Api, OpenHub, Tables, open_hub, serve_hub


class MakeHub(Protocol):
    """``await make_hub({"limits": {"page_max": 5}})``; each hub has a folder of its own unless one is given."""

    def __call__(
        self, tables: Tables | None = None, *, clock: Clock | None = None, folder: Path | None = None
    ) -> Awaitable[OpenHub]: ...


async def _maker(tmp_path: Path, opener: Callable[..., Any]) -> AsyncGenerator[MakeHub]:
    async with AsyncExitStack() as stack:
        count = 0

        async def make(
            tables: Tables | None = None, *, clock: Clock | None = None, folder: Path | None = None
        ) -> OpenHub:
            nonlocal count
            count += 1
            place = folder if folder is not None else tmp_path / f"{opener.__name__}-{count}"
            return await stack.enter_async_context(opener(place, tables, clock=clock))

        yield make


@pytest.fixture
async def make_hub(tmp_path: Path) -> AsyncGenerator[MakeHub]:
    """Makes hubs that are called in this process, without a socket."""
    async for maker in _maker(tmp_path, open_hub):
        yield maker


@pytest.fixture
async def make_server(tmp_path: Path) -> AsyncGenerator[MakeHub]:
    """Makes hubs behind real sockets."""
    async for maker in _maker(tmp_path, serve_hub):
        yield maker


@pytest.fixture
async def hub(make_hub: MakeHub) -> OpenHub:
    """A hub with default settings, no rate limit and a clock that stands still."""
    return await make_hub()


@pytest.fixture
def api(hub: OpenHub) -> Api:
    """A caller of ``hub`` who has the token."""
    return hub.api


@pytest.fixture
async def team(hub: OpenHub) -> Team:
    """Agents of ``hub``, with a channel to work in."""
    return Team(hub, await hub.api.channel())
