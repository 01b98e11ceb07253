"""The one door to the event log.

Every event is checked against the catalogue before it is written: a name that is not in it, or scopes that it must not
carry, would reach the wrong readers and is a fault of ours. The caller has a transaction open and commits the event
together with the change that it tells of.
"""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from parley.core.errors import InternalError
from parley.core.events import EVENTS, scope_problem

encode_json = msgspec.json.Encoder().encode

_INSERT: Final = (
    "INSERT INTO events"
    " (ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id, data_json)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
# Each step of a statement costs the writer's thread one turn at the interpreter, for which it queues behind a busy
# event loop. Many events therefore go in as one value and one step.
_INSERT_MANY: Final = (
    "INSERT INTO events"
    " (ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id, data_json)"
    " SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7 FROM json_each(?)"
)


class Draft:
    """An event before it has an id. ``data`` is a payload struct or a mapping."""

    __slots__ = ("channel_id", "data", "entity_id", "name", "topic_id", "topic_id2")

    def __init__(
        self,
        name: str,
        entity_id: str,
        data: object,
        *,
        channel_id: str | None = None,
        topic_id: str | None = None,
        topic_id2: str | None = None,
    ) -> None:
        self.name = name
        self.entity_id = entity_id
        self.data = data
        self.channel_id = channel_id
        self.topic_id = topic_id
        self.topic_id2 = topic_id2


class StoredEvent:
    """An event that was just appended, on its way to the feed."""

    __slots__ = ("data_json", "draft", "event_id", "ts")

    def __init__(self, event_id: int, ts: str, draft: Draft, data_json: bytes) -> None:
        self.event_id = event_id
        self.ts = ts
        self.draft = draft
        self.data_json = data_json

    def frame_text(self) -> bytes:
        """The event as JSON text for the feed, made once whatever the number of subscribers."""
        draft = self.draft
        scope = {"channel_id": draft.channel_id, "topic_id": draft.topic_id, "topic_id2": draft.topic_id2}
        return (
            b'{"type":"event","event_id":%d,"ts":"%s","name":"%s","scope":%s,"entity":{"type":"%s","id":%s},"data":%s}'
            % (
                self.event_id,
                self.ts.encode(),
                draft.name.encode(),
                encode_json(scope),
                EVENTS[draft.name].entity.encode(),
                encode_json(draft.entity_id),
                self.data_json,
            )
        )


def append_event(connection: apsw.Connection, ts: str, draft: Draft) -> StoredEvent:
    """Appends one event."""
    data_json = _checked(draft)
    connection.execute(_INSERT, _row(ts, draft, data_json))
    return StoredEvent(connection.last_insert_rowid(), ts, draft, data_json)


def append_events(connection: apsw.Connection, ts: str, drafts: Sequence[Draft]) -> list[StoredEvent]:
    """Appends many events. Their ids follow each other: nobody else writes in between."""
    payloads = [_checked(draft) for draft in drafts]
    rows = [_row(ts, draft, data_json) for draft, data_json in zip(drafts, payloads, strict=True)]
    connection.execute(_INSERT_MANY, (encode_json(rows).decode(),))
    first = connection.last_insert_rowid() - len(drafts) + 1
    return [
        StoredEvent(first + offset, ts, draft, data_json)
        for offset, (draft, data_json) in enumerate(zip(drafts, payloads, strict=True))
    ]


def _checked(draft: Draft) -> bytes:
    problem = scope_problem(draft.name, channel_id=draft.channel_id, topic_id=draft.topic_id, topic_id2=draft.topic_id2)
    if problem is not None:
        raise InternalError(problem)
    return encode_json(draft.data)


def _row(ts: str, draft: Draft, data_json: bytes) -> tuple[str | None, ...]:
    return (
        ts,
        draft.name,
        draft.channel_id,
        draft.topic_id,
        draft.topic_id2,
        EVENTS[draft.name].entity,
        draft.entity_id,
        data_json.decode(),
    )
