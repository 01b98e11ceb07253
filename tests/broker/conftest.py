"""A broker without sockets: a store, and sessions that are driven by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.broker.sqlite_store import SqliteStore, open_sqlite_store
from parley.core.clock import ManualClock
from tests.broker.driven_mesh import DrivenMesh


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteStore]:
    opened = open_sqlite_store(tmp_path / "broker.db", clock, synchronous="normal")
    yield opened
    opened.close()


@pytest.fixture
def driven(store: SqliteStore, clock: ManualClock) -> DrivenMesh:
    return DrivenMesh(store, clock)
