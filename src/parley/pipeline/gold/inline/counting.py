"""All gold tables of a lake in Arrow, as the catalogue has them: first those of events, which are then let go."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parley.core.settings import PipelineSettings
from parley.pipeline.gold.counting import HOUR_MS, MINUTE_MS
from parley.pipeline.gold.inline import activity, answers, health, places, work
from parley.pipeline.gold.inline.arrays import UNKNOWN, Array, Columns, Groups, Words, read_flags
from parley.pipeline.gold.inline.posts import Topics, Versions, Vocabulary, find_posts
from parley.pipeline.gold.inline.reading import Reader
from parley.pipeline.lake.catalogue.gold import TABLES

_SMALL: Final = {
    "topics": ("id", "channel_id", "title", "created_time"),
    "channels": ("id", "name", "created_time"),
    "tasks": ("id", "channel_id", "topic_id", "title", "status", "created_by", "holder"),
    "leases": ("id", "holder", "mode", "status"),
    "quarantine": ("event_id", "name", "reason"),
}
"""The sources that are small beside events and versions, and the columns of each that are counted."""


def count_tables(reader: Reader, settings: PipelineSettings) -> Iterator[tuple[str, Any]]:
    """Each table by its name as soon as it is counted. Raises ``UnclearError`` where only Spark can tell."""
    schemas = {table.name: table.schema for table in TABLES}
    for name, columns in _columns(reader, settings):
        yield name, pa.table({field: columns[field] for field in schemas[name].names})


def _columns(reader: Reader, settings: PipelineSettings) -> Iterator[tuple[str, Columns]]:
    words = Vocabulary()
    small = {name: reader.whole(name, *columns) for name, columns in _SMALL.items()}
    events = health.Events.of(reader.events(), words.hubs)
    as_of = Groups(events.hub, len(words.hubs)).most(events.at)
    yield from _of_events(reader, events, small["quarantine"], words.hubs)
    del events  # what follows needs the memory
    happened = reader.work()
    yield "task_times", work.tasks_table(small["tasks"], happened, words.hubs)
    yield "lease_times", work.leases_table(small["leases"], happened, words.hubs)
    del happened
    yield from _of_messages(reader, small, as_of, settings, words)


def _of_events(reader: Reader, events: health.Events, quarantine: Any, hubs: Words) -> Iterator[tuple[str, Columns]]:
    odd, hours = health.find_irregular(events), health.count_hours(events)
    yield "health_hour", health.hours_table(hours, hubs)
    yield "irregularities", health.irregularities_table(events, odd, hubs, reader)
    yield "hubs", health.hubs_table(events, odd, hours, quarantine, hubs)
    yield "quarantine_reasons", health.quarantine_table(quarantine, hubs)


def _of_messages(
    reader: Reader, small: dict[str, Any], as_of: Array, settings: PipelineSettings, words: Vocabulary
) -> Iterator[tuple[str, Columns]]:
    window_ms = round(settings.answer_window_minutes * MINUTE_MS)
    topics = Topics.of(small["topics"], words)
    posts, changes = find_posts(Versions.of(reader.versions(), words), topics)
    yield "activity_hour", activity.activity_table(changes, words, activity.HOUR_US)
    yield "activity_day", activity.activity_table(changes, words, activity.DAY_US)
    del changes
    found = answers.find_answers(posts, window_ms)
    yield "answers", answers.answers_table(posts, found, words)
    yield "pairs", answers.pairs_table(posts, found, words)
    yield "agents", activity.agents_table(posts, found, words)
    waiting = work.count_open_tasks(small["tasks"], topics, words)
    stuck_ms = round(settings.stuck_after_hours * HOUR_MS)
    as_of = np.append(as_of, np.full(len(words.hubs) - len(as_of), UNKNOWN))  # silver may have hubs that bronze has not
    told = places.topics_table(small["topics"], topics, posts, found, waiting, as_of, stuck_ms, words)
    yield "topics", told
    stuck = read_flags(pc.is_valid(told["stuck_reason"]))
    yield "channels", places.channels_table(small["channels"], topics, stuck, posts, found, words)
    yield "unanswered", places.unanswered_table(told, window_ms)
