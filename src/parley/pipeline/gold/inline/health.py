"""How the hubs themselves are, by the rules of ``gold.health``, in arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc

from parley.pipeline.gold.inline.activity import HOUR_US
from parley.pipeline.gold.inline.arrays import (
    UNKNOWN,
    Array,
    Columns,
    Groups,
    Keys,
    Words,
    grouped,
    joined,
    latency_ms,
    moments,
    read_moments,
    read_numbers,
    whole,
)
from parley.pipeline.gold.inline.reading import Reader


@dataclass(frozen=True, slots=True)
class Events:
    """The events of bronze, in the order of their hubs and ids."""

    hub: Array
    event_id: Array
    at: Array
    is_message: Array
    """Whether it tells of a new message."""
    source: Array
    sources: Words

    @classmethod
    def of(cls, batches: Iterable[Any], hubs: Words) -> Self:
        sources, parts = Words(), list[tuple[Array, ...]]()
        for batch in batches:
            is_message = pc.equal(batch["name"], "message.created").to_numpy(zero_copy_only=False)
            numbers = (hubs.numbers(batch["db_id"]), read_numbers(batch["event_id"]), read_moments(batch["at"]))
            parts.append((*numbers, is_message, sources.numbers(batch["source"])))
        hub, event_id, at, is_message, source = [joined(list(each)) for each in zip(*parts, strict=True)] or [
            joined([])
        ] * 5
        order = np.lexsort((event_id, hub))
        return cls(hub[order], event_id[order], at[order], is_message[order] > 0, source[order], sources)


@dataclass(frozen=True, slots=True)
class Odd:
    """Events after which ids are missing or the time runs backwards: their rows, and how much of each."""

    row: Array
    missing: Array
    back_ms: Array


def find_irregular(events: Events) -> Odd:
    """Compares each event with the one before it."""
    later = np.flatnonzero(events.hub[1:] == events.hub[:-1]) + 1
    missing = events.event_id[later] - events.event_id[later - 1] - 1
    back_ms = latency_ms(events.at[later], events.at[later - 1])
    back_ms = np.where(back_ms == UNKNOWN, 0, back_ms)
    odd = (missing > 0) | (back_ms > 0)
    return Odd(later[odd], missing[odd], back_ms[odd])


def irregularities_table(events: Events, odd: Odd, hubs: Words, reader: Reader) -> Columns:
    """The table ``irregularities``. The texts of the times are looked up once more, for these events alone."""
    written = reader.times(events.event_id[np.union1d(odd.row, odd.row - 1)].tolist())
    known = Keys(hubs.numbers(written["db_id"]), read_numbers(written["event_id"]))

    def texts(rows: Array) -> Any:
        return written["ts"].take(known.find(events.hub[rows], events.event_id[rows]))

    return {
        "db_id": hubs.column(events.hub[odd.row]),
        "event_id": whole(events.event_id[odd.row]),
        "previous_event_id": whole(events.event_id[odd.row - 1]),
        "ts": texts(odd.row),
        "previous_ts": texts(odd.row - 1),
        "missing": whole(odd.missing),
        "back_ms": whole(odd.back_ms),
    }


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of each hub in which anything was logged."""

    hub: Array
    start: Array
    events: Array
    messages: Array


def count_hours(events: Events) -> Hours:
    """Events and new messages by the hour."""
    timed = np.flatnonzero(events.at != UNKNOWN)
    hub, start = events.hub[timed], events.at[timed] // HOUR_US
    hours, of = grouped(hub, start)
    return Hours(hub[of], start[of], hours.count(), hours.count(events.is_message[timed]))


def hours_table(hours: Hours, hubs: Words) -> Columns:
    """The table ``health_hour``."""
    return {
        "db_id": hubs.column(hours.hub),
        "start": moments(hours.start * HOUR_US),
        "events": whole(hours.events),
        "messages": whole(hours.messages),
    }


def hubs_table(events: Events, odd: Odd, hours: Hours, quarantine: Any, hubs: Words) -> Columns:
    """The table ``hubs``."""
    every = Groups(events.hub, len(hubs))
    busy, strange = Groups(hours.hub, len(hubs)), Groups(events.hub[odd.row], len(hubs))
    count, last = every.count(), every.last(events.event_id)
    here = np.flatnonzero(count)
    columns = {
        "events": count,
        "first_event_id": every.least(events.event_id),
        "last_event_id": every.most(events.event_id),
        "untimed": every.count(events.at == UNKNOWN),
        "busy_hours": busy.count(),
        "events_in_peak_hour": np.maximum(busy.most(hours.events), 0),
        "gaps": strange.count(odd.missing > 0),
        "missing": strange.total(odd.missing),
        "clock_jumps": strange.count(odd.back_ms > 0),
        "back_ms_max": np.maximum(strange.most(odd.back_ms), 0),
        "quarantined": Groups(hubs.numbers(quarantine["db_id"]), len(hubs)).count(),
    }
    return {
        "db_id": hubs.column(here),
        "source": events.sources.column(events.source[last[here]]),
        **{name: whole(values[here]) for name, values in columns.items()},
        "first_at": moments(every.least(events.at)[here]),
        "last_at": moments(every.most(events.at)[here]),
    }


def quarantine_table(rows: Any, hubs: Words) -> Columns:
    """The table ``quarantine_reasons``."""
    names, reasons = Words(), Words()
    hub, name, reason = hubs.numbers(rows["db_id"]), names.numbers(rows["name"]), reasons.numbers(rows["reason"])
    groups, of = grouped(hub, name, reason)
    return {
        "db_id": hubs.column(hub[of]),
        "name": names.column(name[of]),
        "reason": reasons.column(reason[of]),
        "events": whole(groups.count()),
        "first_event_id": whole(groups.least(read_numbers(rows["event_id"]))),
    }
