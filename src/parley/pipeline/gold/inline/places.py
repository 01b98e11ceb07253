"""Topics and channels, by the rules of ``gold.places``, in arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parley.pipeline.gold.inline.activity import fates
from parley.pipeline.gold.inline.answers import Answers
from parley.pipeline.gold.inline.arrays import (
    UNKNOWN,
    Array,
    Columns,
    Groups,
    Keys,
    latency_ms,
    moments,
    picked,
    picked_number,
    read_moments,
    whole,
)
from parley.pipeline.gold.inline.posts import Posts, Topics, Vocabulary
from parley.pipeline.gold.places import OPEN_QUESTION, OPEN_TASK, UNANSWERED


def topics_table(
    rows: Any,
    topics: Topics,
    posts: Posts,
    answers: Answers,
    open_tasks: Array,
    as_of: Array,
    stuck_ms: int,
    words: Vocabulary,
) -> Columns:
    """The table ``topics``, from silver's. ``open_tasks`` are those of each topic, ``as_of`` each hub's last moment."""
    size = len(topics.hub)
    place = topics.keys.find(posts.hub, posts.topic)
    held, live = Groups(place, size), ~posts.is_deleted
    spoken = Groups(np.where(live, place, -1), size)
    answered = Groups(place[answers.question], size)
    first, last = held.first(posts.event_id, live), held.last(posts.event_id, live)
    agents, count = spoken.distinct(posts.sender), answered.count()
    last_at = picked(posts.at, last)
    now = picked(as_of, topics.hub)
    quiet_ms = latency_ms(last_at, now)
    nobody = (agents == 1) & (count == 0)
    asks = np.where(last >= 0, posts.asks[last], False) if len(posts.asks) else np.zeros(size, bool)
    reasons = np.select([open_tasks > 0, nobody, asks], [0, 1, 2], -1)
    stuck = np.where((quiet_ms != UNKNOWN) & (quiet_ms > stuck_ms), reasons, -1)
    return {
        "db_id": rows["db_id"],
        "channel_id": rows["channel_id"],
        "topic_id": rows["id"],
        "title": rows["title"],
        "created_at": moments(read_moments(rows["created_time"])),
        **fates(posts, held),
        "live": whole(spoken.count()),
        "agents": whole(agents),
        "first_sender": words.agents.column(picked_number(posts.sender, first)),
        "first_at": moments(picked(posts.at, first)),
        "last_sender": words.agents.column(picked_number(posts.sender, last)),
        "last_at": moments(last_at),
        "answers": whole(count),
        **answered.latencies(answers.latency_ms),
        "open_tasks": whole(open_tasks),
        "as_of": moments(now),
        "quiet_ms": whole(quiet_ms),
        "stuck_reason": pa.DictionaryArray.from_arrays(
            pa.array(stuck.astype(np.int32), mask=stuck < 0), [OPEN_TASK, UNANSWERED, OPEN_QUESTION]
        ),
    }


def unanswered_table(topics: Columns, window_ms: int) -> Columns:
    """The table ``unanswered``, from that of topics."""
    rows = pa.table(topics)
    waits = pc.fill_null(pc.greater(rows["quiet_ms"], window_ms), False)
    nobody = pc.and_(pc.equal(rows["agents"], 1), pc.equal(rows["answers"], 0))
    found = rows.filter(pc.and_(waits, nobody))
    same = {name: found[name] for name in ("db_id", "channel_id", "topic_id", "title")}
    return {
        **same,
        "asker": found["first_sender"],
        "asked_at": found["first_at"],
        "messages": found["live"],
        "waiting_ms": found["quiet_ms"],
    }


def channels_table(
    rows: Any, topics: Topics, stuck: Array, posts: Posts, answers: Answers, words: Vocabulary
) -> Columns:
    """The table ``channels``. ``stuck`` says of each topic whether it is."""
    hub = words.hubs.numbers(rows["db_id"])
    keys = Keys(hub, words.channels.numbers(rows["id"]))
    place = keys.find(posts.hub, posts.channel)
    held = Groups(place, rows.num_rows)
    inside = Groups(keys.find(topics.hub, topics.channel), rows.num_rows)
    answered = Groups(place[answers.question], rows.num_rows)
    return {
        "db_id": rows["db_id"],
        "channel_id": rows["id"],
        "name": rows["name"],
        "created_at": moments(read_moments(rows["created_time"])),
        **fates(posts, held),
        "agents": whole(held.distinct(posts.sender)),
        "topics": whole(inside.count()),
        "stuck_topics": whole(inside.count(stuck)),
        "first_at": moments(held.least(posts.at)),
        "last_at": moments(held.most(posts.at)),
        "answers": whole(answered.count()),
        **answered.latencies(answers.latency_ms),
    }
