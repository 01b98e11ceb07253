"""A mesh of three in each of the stores."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from tests.conformance.broker.circle import Circle
from tests.postgres import Server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[BrokerStore]:
    if request.param == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        with closing(open_sqlite_store(folder / "broker.db", clock, synchronous="normal")) as opened:
            yield opened
        return
    server: Server = request.getfixturevalue("postgresql")
    with closing(PostgresqlStore(server.new_url(), clock)) as opened:
        yield opened


@pytest.fixture
def circle(store: BrokerStore, clock: ManualClock) -> Circle:
    return Circle(store, clock)
