"""Folding the news of one hub onto the rows that silver has: the pure fold, and beside it what silver keeps besides.

``core`` folds current rows. Silver also keeps which event made a row and which changed it last, and every version of a
message, title of a topic and move; all of that is written down here as the events go by.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from parley.core.canonical import parse_strict
from parley.core.errors import InvalidInput
from parley.core.events import EVENTS
from parley.core.fold import TABLES, FoldError, HubState, LoggedEvent, Row, fold
from parley.core.limits import TOMBSTONE
from parley.pipeline.lake.catalogue.silver import NOT_FOLDED_UNDER_THIS_NAME
from parley.wire.events import decode_payload

Rows = Mapping[str, list[Row]]
"""Rows of a hub by the name of their silver table."""

CURRENT: Final = {
    name: NOT_FOLDED_UNDER_THIS_NAME.get(name, name)
    for name in ("channels", "topics", "messages", "attachments", "enrichments", "tasks", "leases", "agents")
}
"""The silver tables of current rows, and what the fold calls them."""
_TABLE_OF: Final = {
    "channel": "channels",
    "topic": "topics",
    "message": "messages",
    "attachment": "attachments",
    "task": "tasks",
    "lease": "leases",
    "agent": "agents",
}
_ONCE: Final = frozenset(
    {
        "channel.created",
        "topic.created",
        "message.created",
        "topic.attachment_added",
        "task.created",
        "agent.registered",
    }
)
_CHANGE: Final = {
    "message.created": "created",
    "message.edited": "edited",
    "message.deleted": "deleted",
    "message.moved_topic": "moved",
}


_TOLD_OF_MOVES: Final = ("message_id", "old_topic_id", "new_topic_id", "channel_id", "mode", "version")


class NotPlainError(ValueError):
    """The news hold something that only a judgement of the whole log can decide on."""


class Event(NamedTuple):
    """An event as bronze has it."""

    event_id: int
    ts: str
    name: str
    entity_type: str
    entity_id: str
    data_json: str


@dataclass(slots=True)
class Change:
    """What the news do to one table: rows with these keys go, the rows come."""

    touched: set[str] = field(default_factory=set[str])
    rows: list[Row] = field(default_factory=list[Row])


def fold_news(events: Iterable[Event], known: Rows) -> dict[str, Change]:
    """The changes of each table. ``known`` must hold all rows that the events may be about.

    Raises ``NotPlainError`` where an event is not just what the hub writes, or archives something.
    """
    news = _News(known)
    for event in events:
        news.take(event)
    return news.changes()


class _News:
    def __init__(self, known: Rows) -> None:
        self._state = HubState()
        self._origins: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in CURRENT}
        self._changes = {name: Change() for name in CURRENT}
        for name, folded in CURRENT.items():
            for row in known.get(name, ()):
                key = row[TABLES[folded][0]]
                self._state.table(folded)[key] = {column: row[column] for column in TABLES[folded]}
                self._origins[name][key] = (row["created_event_id"], row["last_event_id"])
        for row in known.get("enrichments", ()):
            self._state.enrichments_of.setdefault(row["message_id"], []).append(row["id"])
        self._state.lease_generation = max((row["generation"] for row in known.get("leases", ())), default=0)
        self._versions = _Periods(known.get("message_versions", ()))
        self._titles = _Periods(known.get("topic_titles", ()))
        self._moves: list[Row] = []

    def take(self, event: Event) -> None:
        """Folds one event, and writes down what it did."""
        data = _read(event)
        entity = EVENTS[event.name].entity
        if entity not in _TABLE_OF:
            return  # it says something about the workspace that no table holds
        table = _TABLE_OF[entity]
        if event.name in _ONCE and event.entity_id in self._state.table(CURRENT[table]):
            raise NotPlainError(f"event {event.event_id} creates {event.entity_id} again")
        if event.name == "message.enriched":
            self._refuse_foreign(event, data)
        try:
            fold([LoggedEvent(event.event_id, event.ts, event.name, data)], self._state)
        except (FoldError, InvalidInput) as error:
            raise NotPlainError(str(error)) from error
        if event.name == "message.enriched":
            self._found(event, data)
            return
        self._note(table, event.entity_id, event.event_id)
        if entity == "message":
            self._message(event, data)
        elif entity == "topic":
            title = data["topic"]["title"] if event.name == "topic.created" else data["new_title"]
            self._titles.add(event, {"title": title})

    def changes(self) -> dict[str, Change]:
        """What came of all events so far."""
        for name, change in self._changes.items():
            keys = change.touched
            if name == "enrichments":  # they go and come with all others of their message
                keys = [each for message in keys for each in self._state.enrichments_of.get(message, ())]
            change.rows = [self._row(name, key) for key in keys]
        history = {"message_versions": self._versions.change, "topic_titles": self._titles.change}
        return {**self._changes, **history, "moves": Change(rows=self._moves)}

    def _row(self, name: str, key: str) -> Row:
        made, last = self._origins[name][key]
        return self._state.table(CURRENT[name])[key] | {"created_event_id": made, "last_event_id": last}

    def _note(self, table: str, key: str, event_id: int) -> None:
        made, _ = self._origins[table].get(key, (event_id, event_id))
        self._origins[table][key] = (made, event_id)
        self._changes[table].touched.add(key)

    def _message(self, event: Event, data: Row) -> None:
        if event.name == "message.created":
            self._note("topics", data["message"]["topic_id"], event.event_id)
        elif event.name == "message.moved_topic":
            self._note("topics", data["old_topic_id"], event.event_id)
            self._note("topics", data["new_topic_id"], event.event_id)
            told = {name: data[name] for name in _TOLD_OF_MOVES}
            self._moves.append({"event_id": event.event_id, "ts": event.ts, **told})
        else:
            self._outdated(event)
        self._versions.add(event, _version(event, data, self._versions.newest.get(event.entity_id)))

    def _outdated(self, event: Event) -> None:
        """Everything that was found in the content is of an earlier one now."""
        found = self._state.enrichments_of.get(event.entity_id, ())
        if found:
            self._changes["enrichments"].touched.add(event.entity_id)
        for enrichment_id in found:
            made, _ = self._origins["enrichments"][enrichment_id]
            self._origins["enrichments"][enrichment_id] = (made, event.event_id)

    def _refuse_foreign(self, event: Event, data: Row) -> None:
        ids: list[str] = data["enrichment_ids"]
        others = [
            each
            for each in ids
            if (row := self._state.enrichments.get(each)) is not None
            and (row["message_id"], row["plugin_name"]) != (event.entity_id, data["plugin_name"])
        ]
        if others or len(set(ids)) < len(ids) or len(ids) != len(data["enrichments"]):
            raise NotPlainError(f"event {event.event_id} gives findings the ids of others")

    def _found(self, event: Event, data: Row) -> None:
        """A plugin's findings, which replaced its earlier ones."""
        self._changes["enrichments"].touched.add(event.entity_id)
        for enrichment_id in data["enrichment_ids"]:
            self._origins["enrichments"][enrichment_id] = (event.event_id, event.event_id)


class _Periods:
    """Rows of a history: the newest of each thing, which the next one ends."""

    def __init__(self, known: Iterable[Row]) -> None:
        self.newest = {row["id"]: dict(row) for row in known}
        self.change = Change()
        self._there = set(self.newest)

    def add(self, event: Event, values: Row) -> None:
        """Begins a new period of the thing, and ends the one before it."""
        ended = self.newest.get(event.entity_id)
        if ended is not None:
            ended["valid_to_event"] = event.event_id
            if event.entity_id in self._there and event.entity_id not in self.change.touched:
                self.change.touched.add(event.entity_id)
                self.change.rows.append(ended)
        row = {"id": event.entity_id, **values, "ts": event.ts, "valid_from_event": event.event_id}
        self.newest[event.entity_id] = row | {"valid_to_event": None}
        self.change.rows.append(self.newest[event.entity_id])


def _read(event: Event) -> Row:
    """The payload, which is just what the hub writes in an event of this name."""
    spec = EVENTS.get(event.name)
    if spec is None or event.name == "workspace.archived":
        raise NotPlainError(f"event {event.event_id} is {event.name}")
    try:
        data: Any = parse_strict(event.data_json)
        decode_payload(event.name, data)
    except (InvalidInput, msgspec.ValidationError) as error:
        raise NotPlainError(f"event {event.event_id} cannot be read: {error}") from error
    if spec.entity in _TABLE_OF:
        whole: Row | None = data.get(spec.entity)
        named = data[f"{spec.entity}_id"] if whole is None else whole["name" if spec.entity == "agent" else "id"]
        if (spec.entity, named) != (event.entity_type, event.entity_id):
            raise NotPlainError(f"event {event.event_id} is about {named}, not about {event.entity_id}")
    return data


def _version(event: Event, data: Row, before: Row | None) -> Row:
    """The version that the event made; what it does not say is as before."""
    change = _CHANGE[event.name]
    if change == "created":
        message: Row = data["message"]
        told = {name: message[name] for name in ("version", "content_raw", "topic_id")}
        return {**told, "change": change, "actor": message["sender"], "reply_to": message.get("reply_to")}
    if before is None:
        raise NotPlainError(f"event {event.event_id} changes a message that has no version")
    row = {name: before[name] for name in ("content_raw", "topic_id", "reply_to")}
    row |= {"version": data["version"], "change": change, "actor": data.get("deleted_by")}
    if change == "moved":
        row["topic_id"] = data["new_topic_id"]
    else:
        row["content_raw"] = TOMBSTONE if change == "deleted" else data["new_content"]
    return row
