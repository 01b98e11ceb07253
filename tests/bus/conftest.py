"""Tests of a bus in memory run on a loop without time; a module with real threads says ``REAL_TIME = True``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from tests.bus.timeless import TimelessLoop
from tests.bus.world import World


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], Any]]:
    if getattr(item.module, "REAL_TIME", False):
        return {"real time": asyncio.new_event_loop}
    return {"timeless": TimelessLoop}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.close()
