"""A broker with traffic in each of the stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.core.clock import ManualClock
from tests.pipeline.brokers.worlds import World, opened_world
from tests.postgres import Server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[World]:
    if request.param == "sqlite":
        place = str(tmp_path / "broker.db")
    else:
        server: Server = request.getfixturevalue("postgresql")
        place = server.new_url()
    with opened_world(place, clock) as opened:
        yield opened
