"""Each message that was ever posted, and each change of one: what ``gold.facts`` finds, in arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parley.pipeline.gold.facts import CREATED, DELETED, EDITED, MOVED
from parley.pipeline.gold.inline.arrays import (
    Array,
    Keys,
    Names,
    Words,
    joined,
    named,
    picked_number,
    read_flags,
    read_moments,
    read_numbers,
)
from parley.pipeline.gold.inline.reading import UnclearError


class Vocabulary:
    """The texts that several tables share."""

    def __init__(self) -> None:
        self.hubs, self.topics, self.channels, self.agents = Words(), Words(), Words(), Words()


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of silver, and in which channel each is."""

    hub: Array
    channel: Array
    keys: Keys

    @classmethod
    def of(cls, rows: Any, words: Vocabulary) -> Self:
        hub, topic = words.hubs.numbers(rows["db_id"]), words.topics.numbers(rows["id"])
        return cls(hub, words.channels.numbers(rows["channel_id"]), Keys(hub, topic))


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of messages, as they lie in silver."""

    hub: Array
    event_id: Array
    at: Array
    kind: Array
    actor: Array
    topic: Array
    characters: Array
    asks: Array
    message: Array
    replies: Array
    reply_to: Array
    names: Names
    """What the messages are called."""

    @classmethod
    def of(cls, batches: Iterable[Any], words: Vocabulary) -> Self:
        parts: dict[str, list[Any]] = {}
        for batch in batches:
            part: dict[str, Any] = {
                "hub": words.hubs.numbers(batch["db_id"]),
                "event_id": read_numbers(batch["event_id"]),
                "at": read_moments(batch["at"]),
                "kind": _kinds(batch["change"]),
                "actor": words.agents.numbers(batch["actor"]),
                "topic": words.topics.numbers(batch["topic_id"]),
                "characters": _lengths(batch["characters"]),
                "asks": read_flags(batch["asks"]),
                "id": batch["id"],
                "reply_to": batch["reply_to"],
            }
            for name, column in part.items():
                parts.setdefault(name, []).append(column)
        ids, replied = (pa.chunked_array(parts.pop(name, []), pa.string()) for name in ("id", "reply_to"))
        names = Names(ids)
        found = {"message": names.numbers(ids), "reply_to": names.numbers(replied)}
        replies = read_flags(pc.is_valid(replied))
        del ids, replied  # the texts were the largest part of it
        pa.default_memory_pool().release_unused()
        columns = {name: joined(parts.pop(name, [])) for name in _COLUMNS}
        return cls(names=names, replies=replies, **found, **columns)


@dataclass(frozen=True, slots=True)
class Posts:
    """One row per message: how it was posted, where and how it stands now, and what happened to it."""

    hub: Array
    message: Array
    names: Names
    """What the messages are called."""
    event_id: Array
    sender: Array
    at: Array
    replies: Array
    """Whether it replies to something by name."""
    reply_to: Array
    """The row of the message that it replies to, or -1."""
    topic: Array
    channel: Array
    asks: Array
    is_deleted: Array
    is_edited: Array
    is_moved: Array


@dataclass(frozen=True, slots=True)
class Changes:
    """One row per version of a posted message: who made it, and in which topic the message then was."""

    hub: Array
    at: Array
    kind: Array
    agent: Array
    channel: Array
    topic: Array
    characters: Array


_COLUMNS = ("hub", "event_id", "at", "kind", "actor", "topic", "characters", "asks")
KINDS = (CREATED, EDITED, DELETED, MOVED)
"""The numbers of the kinds of change are their places here."""


def find_posts(versions: Versions, topics: Topics) -> tuple[Posts, Changes]:
    """Both from the versions of messages."""
    hub, event_id, kind, name = versions.hub, versions.event_id, versions.kind, versions.message
    messages = named(hub, name)
    made = messages.last(event_id, kind == KINDS.index(CREATED))
    posted = np.flatnonzero(made >= 0)
    made, newest = made[posted], messages.last(event_id)[posted]
    if (versions.actor[made] < 0).any():
        raise UnclearError("a message has no sender")
    now = versions.topic[newest]
    posts = Posts(
        hub=hub[made],
        message=name[made],
        names=versions.names,
        event_id=event_id[made],
        sender=versions.actor[made],
        at=versions.at[made],
        replies=versions.replies[made],
        reply_to=Keys(hub[made], name[made]).find(hub[made], versions.reply_to[made]),
        topic=now,
        channel=picked_number(topics.channel, topics.keys.find(hub[made], now)),
        asks=versions.asks[newest],
        is_deleted=messages.count(kind == KINDS.index(DELETED))[posted] > 0,
        is_edited=messages.count(kind == KINDS.index(EDITED))[posted] > 0,
        is_moved=messages.count(kind == KINDS.index(MOVED))[posted] > 0,
    )
    numbers = np.full(messages.size, -1, np.int32)
    numbers[posted] = np.arange(len(posted))
    return posts, _changes(versions, posts, numbers[messages.of], versions.characters[made])


def _changes(versions: Versions, posts: Posts, post: Array, characters: Array) -> Changes:
    """``post`` is the row of the message that each version is of, or -1; ``characters`` are those of each post."""
    kept = np.flatnonzero(post >= 0)
    post, kind, actor = post[kept], versions.kind[kept], versions.actor[kept]
    by_deleter = (kind == KINDS.index(DELETED)) & (actor >= 0)
    return Changes(
        hub=posts.hub[post],
        at=versions.at[kept],
        kind=kind,
        agent=np.where(by_deleter, actor, posts.sender[post]),
        channel=posts.channel[post],
        topic=versions.topic[kept],
        characters=characters[post],
    )


def _kinds(column: Any) -> Array:
    return pc.fill_null(pc.index_in(column, value_set=pa.array(KINDS)), -1).to_numpy().astype(np.int8)


def _lengths(column: Any) -> Array:
    return pc.fill_null(column, 0).to_numpy()
