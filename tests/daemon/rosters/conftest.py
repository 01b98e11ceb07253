"""A mesh with a roster at a broker's store, of which ada is the owner."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.broker.sqlite_store import open_sqlite_store
from parley.core.clock import ManualClock
from tests.conformance.broker.rostered import Rostered
from tests.core.roster.town import key_body


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Rostered]:
    clock = ManualClock()
    with closing(open_sqlite_store(tmp_path / "broker.db", clock, synchronous="normal")) as store:
        made = Rostered(store, clock)
        made.do("ada", "key", key_body(made.town.state))
        yield made
