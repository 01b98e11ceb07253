"""Tasks and leases, by the rules of ``gold.work``, in arrays."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parley.pipeline.gold.inline.arrays import (
    Array,
    Columns,
    Groups,
    Keys,
    Names,
    Words,
    grouped,
    latency_ms,
    moments,
    picked,
    read_flags,
    read_moments,
    read_numbers,
    whole,
)
from parley.pipeline.gold.inline.posts import Topics, Vocabulary


class _Happened:
    """The events of things of one kind, by the rows of the table that has these things as they are now."""

    def __init__(self, rows: Any, events: Any, hubs: Words, prefix: str) -> None:
        about = events.filter(pc.starts_with(events["name"], prefix))
        ids = Names(rows["id"])
        keys = Keys(hubs.numbers(rows["db_id"]), ids.numbers(rows["id"]))
        place = keys.find(hubs.numbers(about["db_id"]), ids.numbers(about["entity_id"]))
        self._groups, self._names = Groups(place, rows.num_rows), about["name"]
        self._at, self._order = read_moments(about["at"]), read_numbers(about["event_id"])
        self.known = self._groups.count() > 0
        """Which things have events; the others are in no table."""

    def first(self, *names: str) -> Array:
        """When one of these happened first."""
        return picked(self._at, self._groups.first(self._order, self._are(names)))

    def count(self, name: str) -> Array:
        return self._groups.count(self._are((name,)))

    def _are(self, names: tuple[str, ...]) -> Array:
        return pc.is_in(self._names, value_set=pa.array(names)).to_numpy()


def tasks_table(rows: Any, events: Any, hubs: Words) -> Columns:
    """The table ``task_times``, from silver's tasks and the events about them."""
    happened = _Happened(rows, events, hubs, "task.")
    created, claimed = happened.first("task.created"), happened.first("task.claimed")
    completed = happened.first("task.completed")
    texts = {name: rows[name] for name in ("channel_id", "topic_id", "title", "status", "created_by", "holder")}
    columns: Columns = {
        "db_id": rows["db_id"],
        "task_id": rows["id"],
        **texts,
        "created_at": moments(created),
        "first_claimed_at": moments(claimed),
        "completed_at": moments(completed),
        "cancelled_at": moments(happened.first("task.cancelled")),
        "claims": whole(happened.count("task.claimed")),
        "releases": whole(happened.count("task.released")),
        "takeovers": whole(happened.count("task.taken_over")),
        "expiries": whole(happened.count("task.expired")),
        "claim_ms": whole(latency_ms(created, claimed)),
        "complete_ms": whole(latency_ms(created, completed)),
    }
    table: Any = pa.table(columns).filter(pa.array(happened.known))
    return {name: table[name] for name in table.column_names}


def count_open_tasks(rows: Any, topics: Topics, words: Vocabulary) -> Array:
    """The tasks of each topic that are neither completed nor cancelled."""
    waiting = rows.filter(pc.is_in(rows["status"], value_set=pa.array(["open", "claimed"])))
    place = topics.keys.find(words.hubs.numbers(waiting["db_id"]), words.topics.numbers(waiting["topic_id"]))
    return Groups(place, len(topics.hub)).count()


def leases_table(rows: Any, events: Any, hubs: Words) -> Columns:
    """The table ``lease_times``, from silver's leases and the events about them."""
    happened = _Happened(rows, events, hubs, "lease.")
    held_ms = latency_ms(happened.first("lease.acquired"), happened.first("lease.released", "lease.expired"))
    known: Any = pa.array(happened.known)
    rows, held_ms = rows.filter(known), held_ms[happened.known]
    hub, holders = hubs.numbers(rows["db_id"]), Words()
    holder = holders.numbers(rows["holder"])
    groups, of = grouped(hub, holder)
    return {
        "db_id": hubs.column(hub[of]),
        "holder": holders.column(holder[of]),
        "leases": whole(groups.count()),
        "exclusive": whole(groups.count(_is(rows["mode"], "exclusive"))),
        "active": whole(groups.count(_is(rows["status"], "active"))),
        "expired": whole(groups.count(_is(rows["status"], "expired"))),
        **groups.latencies(held_ms),
    }


def _is(column: Any, text: str) -> Array:
    return read_flags(pc.equal(column, text))
