"""Logs for the fold: those of real hubs with random histories, damaged ones, and the state that they must give."""

import copy
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession

from parley.core.clock import ManualClock
from parley.core.fold import TABLES, FoldError, HubState, LoggedEvent, fold
from parley.hub.archive import archive_before
from parley.pipeline.source.schema import EVENT_DDL, LOG_COLUMNS
from parley.workspace import queries
from parley.workspace.reading import open_reading_file
from tests.hub.histories import History
from tests.workspace.databases import START_MS, new_workspace, prepared, writing

_COLUMNS = ", ".join(LOG_COLUMNS)


class Event(NamedTuple):
    """A row of the event schema."""

    db_id: str
    event_id: int
    ts: str
    name: str
    scope_channel_id: str | None
    scope_topic_id: str | None
    scope_topic_id2: str | None
    entity_type: str
    entity_id: str
    data_json: str

    @property
    def data(self) -> Any:
        return json.loads(self.data_json)


class Log(NamedTuple):
    """All that a hub ever logged, archives included, and its own tables."""

    events: list[Event]
    stored: HubState


def random_log(folder: Path, db_id: str, seed: int, steps: int, *, archives: bool = False) -> Log:
    """What a real hub writes in a random history; with archives, it also takes old history away in between."""
    workspace = new_workspace(folder)
    clock = ManualClock(START_MS)
    with writing(workspace) as connection:
        prepared(connection, workspace)
        history = History(connection, seed, clock)
        history.run(steps)
        for _ in range(2 if archives else 0):
            before_ms = clock.now_ms() - history.rng.randrange(1_000_000)
            history.run(steps // 2)
            archive_before(connection, workspace, before_ms=before_ms, now_ms=clock.now_ms())
            history.under_way.clear()
            history.run(steps // 2)
        rows: list[Any] = []
        for (name,) in connection.execute("SELECT name FROM archives ORDER BY up_to_event_id").fetchall():
            with open_reading_file(workspace.archives / str(name)) as reading:
                rows += reading.connection.execute(f"SELECT {_COLUMNS} FROM events ORDER BY event_id").fetchall()
        rows += connection.execute(f"SELECT {_COLUMNS} FROM events ORDER BY event_id").fetchall()
        return Log([Event(db_id, *row) for row in rows], queries.stored_state(connection))


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    return spark.createDataFrame([tuple(event) for event in events], EVENT_DDL)


def pure(events: Iterable[Event]) -> HubState:
    """The state by the pure fold."""
    return fold(LoggedEvent(event.event_id, event.ts, event.name, event.data) for event in events)


def states(tables: dict[str, DataFrame]) -> dict[str, HubState]:
    """What Spark has folded, hub by hub, as the pure fold would say it."""
    found: dict[str, HubState] = {}
    for table, rows in tables.items():
        for row in rows.collect():
            state = found.setdefault(row["db_id"], HubState())
            key = row[TABLES[table][0]]
            assert key not in state.table(table)
            state.table(table)[key] = {column: row[column] for column in TABLES[table]}
    return found


def refused_by_the_pure_fold(events: Iterable[Event]) -> set[int]:
    """The events that contradict what the ones before have left, when each such event is passed over."""
    state, refused = HubState(), set[int]()
    for event in events:
        attempt = copy.deepcopy(state)
        try:
            data = msgspec.json.decode(event.data_json, type=dict[str, Any])
            state = fold([LoggedEvent(event.event_id, event.ts, event.name, data)], attempt)
        except (FoldError, ValueError, TypeError):
            refused.add(event.event_id)
    return refused


BY_ITSELF = {"unknown_name", "malformed", "wrong_entity"}
"""What is wrong with an event by itself. The pure fold is given what was read already, and trusts its shape."""


def damage(event: Event, rng: random.Random) -> list[Event]:
    """What becomes of the event by one kind of damage."""
    return rng.choice(_DAMAGES)(event, rng)


def damaged(events: list[Event], rng: random.Random, times: int) -> list[Event]:
    """The log with events lost, repeated and changed, in places chosen by chance."""
    events = list(events)
    for place in sorted(rng.sample(range(len(events)), times), reverse=True):
        events[place : place + 1] = damage(events[place], rng)
    return [event._replace(event_id=number) for number, event in enumerate(events, 1)]


def _changed(event: Event, **members: Any) -> list[Event]:
    return [event._replace(data_json=json.dumps({**event.data, **members}))]


def _lose(event: Event, _: random.Random) -> list[Event]:
    return []


def _repeat(event: Event, _: random.Random) -> list[Event]:
    return [event, event]


def _jump(event: Event, rng: random.Random) -> list[Event]:
    return _changed(event, version=rng.randrange(6))


def _misplace(event: Event, rng: random.Random) -> list[Event]:
    return _changed(event, **{rng.choice(("old_topic_id", "new_topic_id")): "topic_nowhere"})


def _forget(event: Event, rng: random.Random) -> list[Event]:
    data = event.data
    data.pop(rng.choice([*sorted(data), None]), None)
    return [event._replace(data_json=json.dumps(data))]


def _break(event: Event, rng: random.Random) -> list[Event]:
    texts = (event.data_json[:-3], event.data_json + " x", "", "null", "[]", "{'a': 1}", "5", '{"a": NaN}')
    return [event._replace(data_json=rng.choice(texts))]


def _rename(event: Event, _: random.Random) -> list[Event]:
    return [event._replace(name="from.the_future")]


def _confuse(event: Event, _: random.Random) -> list[Event]:
    return [event._replace(entity_id="msg_other")]


def _mistake(event: Event, _: random.Random) -> list[Event]:
    return [event._replace(entity_type="channel" if event.entity_type == "message" else "message")]


def _regress(event: Event, rng: random.Random) -> list[Event]:
    """Another generation, where the event tells of one."""
    held = {key: event.data[key] for key in ("task", "lease") if key in event.data}
    return _changed(event, **{key: {**row, "generation": rng.randrange(6)} for key, row in held.items()})


_DAMAGES: tuple[Callable[[Event, random.Random], list[Event]], ...] = (
    _lose,
    _repeat,
    _jump,
    _misplace,
    _forget,
    _break,
    _rename,
    _confuse,
    _mistake,
    _regress,
)
