"""A mesh of three in each of the stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from tests.conformance.broker.circle import Circle


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[BrokerStore]:
    opened = open_sqlite_store(tmp_path / "broker.db", clock)
    yield opened
    opened.close()


@pytest.fixture
def circle(store: BrokerStore, clock: ManualClock) -> Circle:
    return Circle(store, clock)
