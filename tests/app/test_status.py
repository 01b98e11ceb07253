"""How much a workspace grows, from its log alone."""

from collections.abc import Iterator

import apsw
import pytest

from parley.app.status import DAY_MS, growth
from parley.core.clock import iso

NOW = 1_767_225_600_000


@pytest.fixture
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE events (event_id INTEGER PRIMARY KEY, ts TEXT)")
    connection.execute("CREATE TABLE archives (name TEXT, up_to_event_id INTEGER)")
    yield connection
    connection.close()


def add(database: apsw.Connection, *days_ago: float) -> None:
    for days in days_ago:
        database.execute("INSERT INTO events (ts) VALUES (?)", (iso(NOW - round(days * DAY_MS)),))


def test_an_empty_log_does_not_grow(database: apsw.Connection) -> None:
    assert growth(database, NOW, 4096) == {
        "events": 0,
        "latest_event_id": 0,
        "growth_per_day": {"events": 0, "bytes": 0},
    }


def test_the_last_week_is_what_counts(database: apsw.Connection) -> None:
    add(database, *([30.0] * 100), *([6.0] * 14))
    assert growth(database, NOW, 1140) == {
        "events": 114,
        "latest_event_id": 114,
        "growth_per_day": {"events": 2, "bytes": 20},
    }


def test_a_younger_workspace_is_measured_over_its_life_and_at_least_a_day(database: apsw.Connection) -> None:
    add(database, 2.0, 1.0, 1.0, 0.5)
    assert growth(database, NOW, 400)["growth_per_day"] == {"events": 2, "bytes": 200}
    database.execute("DELETE FROM events")
    add(database, 0.01, 0.005)
    assert growth(database, NOW, 400)["growth_per_day"]["events"] == 2


def test_archived_events_and_gaps_are_not_counted_as_kept(database: apsw.Connection) -> None:
    add(database, *([1.0] * 10))
    database.execute("INSERT INTO archives VALUES ('a', 4)")
    database.execute("DELETE FROM events WHERE event_id <= 4 OR event_id = 7")
    assert growth(database, NOW, 600)["events"] == 6
