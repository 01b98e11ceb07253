"""What happened when, and what each agent did, by the rules of ``gold.activity`` and ``gold.agents``, in arrays."""

import numpy as np

from parley.pipeline.gold.facts import CREATED, DELETED, EDITED, MOVED
from parley.pipeline.gold.inline.answers import Answers
from parley.pipeline.gold.inline.arrays import (
    UNKNOWN,
    Array,
    Columns,
    Groups,
    Keys,
    grouped,
    moments,
    ratios,
    whole,
)
from parley.pipeline.gold.inline.posts import KINDS, Changes, Posts, Vocabulary

HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000


def activity_table(changes: Changes, words: Vocabulary, length_us: int) -> Columns:
    """The tables ``activity_hour`` and ``activity_day``, by how long the periods are."""
    timed = np.flatnonzero(changes.at != UNKNOWN)
    start, kind = changes.at[timed] // length_us, changes.kind[timed]
    keys = (changes.hub[timed], start, changes.agent[timed], changes.channel[timed], changes.topic[timed])
    groups, of = grouped(*keys)
    created = kind == KINDS.index(CREATED)
    return {
        "db_id": words.hubs.column(keys[0][of]),
        "start": moments(start[of] * length_us),
        "agent": words.agents.column(keys[2][of]),
        "channel_id": words.channels.column(keys[3][of]),
        "topic_id": words.topics.column(keys[4][of]),
        "messages": whole(groups.count(created)),
        "edits": whole(groups.count(kind == KINDS.index(EDITED))),
        "deletions": whole(groups.count(kind == KINDS.index(DELETED))),
        "moves": whole(groups.count(kind == KINDS.index(MOVED))),
        "characters": whole(groups.total(np.where(created, changes.characters[timed], 0))),
    }


def fates(posts: Posts, groups: Groups) -> Columns:
    """How many messages each group has, and which share of them was ever edited, moved or deleted."""
    messages = groups.count()
    ever: dict[str, tuple[str, Array]] = {
        "edit_rate": ("edited", groups.count(posts.is_edited)),
        "move_rate": ("moved", groups.count(posts.is_moved)),
        "delete_rate": ("deleted", groups.count(posts.is_deleted)),
    }
    counts = {name: whole(count) for name, count in ever.values()}
    nothing = np.full(groups.size, np.nan)
    rates = {
        rate: ratios(np.divide(count, messages, out=nothing.copy(), where=messages > 0))
        for rate, (_, count) in ever.items()
    }
    return {"messages": whole(messages), **counts, **rates}


def agents_table(posts: Posts, answers: Answers, words: Vocabulary) -> Columns:
    """The table ``agents``."""
    groups, of = grouped(posts.hub, posts.sender)
    hub, agent = posts.hub[of], posts.sender[of]
    known = Keys(hub, agent)
    asked = posts.hub[answers.question]
    gave = Groups(known.find(asked, posts.sender[answers.answer]), groups.size)
    got = Groups(known.find(asked, posts.sender[answers.question]), groups.size)
    return {
        "db_id": words.hubs.column(hub),
        "agent": words.agents.column(agent),
        **fates(posts, groups),
        "topics": whole(groups.distinct(posts.topic)),
        "channels": whole(groups.distinct(posts.channel)),
        "first_at": moments(groups.least(posts.at)),
        "last_at": moments(groups.most(posts.at)),
        "answers_given": whole(gave.count()),
        "messages_answered": whole(got.distinct(answers.question)),
        **gave.latencies(answers.latency_ms),
    }
