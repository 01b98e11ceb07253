"""The fold: a pure function that rebuilds the hub's state from its log.

If the log is complete, folding it gives exactly the rows of the hub's tables, column by column. Property tests, crash
campaigns and the pipeline's audit rest on that.

``topics.updated_at`` is the time of the last event that changed what the topic holds: its creation and renaming,
messages posted to it, and messages moved out of it or into it. Every other time column is the ``ts`` of the event that
set it.

An event about a task, a lease or an agent carries the whole row after the change, so its last event is its row. Three
columns are not in the log and not in ``TABLES``: ``tasks.lease_expires_at`` and ``leases.expires_at``, which renewals
push on, and ``agents.last_seen_at``, which every request does. They say how long something is still true, not what
happened.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parley.core.canonical import canonical_json
from parley.core.limits import TOMBSTONE

Row = dict[str, Any]

TABLES: Mapping[str, tuple[str, ...]] = {
    "channels": ("id", "name", "description", "created_at"),
    "topics": ("id", "channel_id", "title", "created_at", "updated_at"),
    "messages": (
        "id",
        "topic_id",
        "channel_id",
        "sender",
        "content_raw",
        "version",
        "created_at",
        "edited_at",
        "deleted_at",
        "deleted_by",
        "reply_to",
    ),
    "topic_attachments": (
        "id",
        "topic_id",
        "kind",
        "key",
        "value_json",
        "dedupe_key",
        "source_message_id",
        "created_at",
    ),
    "enrichments": (
        "id",
        "message_id",
        "plugin_name",
        "kind",
        "span_start",
        "span_end",
        "data_json",
        "created_at",
        "outdated",
    ),
    "tasks": (
        "id",
        "topic_id",
        "channel_id",
        "title",
        "description",
        "status",
        "created_by",
        "holder",
        "generation",
        "created_at",
        "updated_at",
        "claimed_at",
        "completed_at",
        "result",
    ),
    "leases": (
        "id",
        "holder",
        "patterns",
        "mode",
        "reason",
        "generation",
        "acquired_at",
        "released_at",
        "status",
    ),
    "agents": ("name", "program", "model", "session", "state", "registered_at"),
}
"""The columns that the log determines, the key of a row first. JSON columns are compared as canonical text."""


class LoggedEvent(NamedTuple):
    """An event as the log holds it."""

    event_id: int
    ts: str
    name: str
    data: Mapping[str, Any]


class FoldError(ValueError):
    """The log contradicts itself: an event about something that does not exist or is there already, or out of order."""


@dataclass(slots=True)
class HubState:
    """The state of a hub, as tables of rows by their keys."""

    channels: dict[str, Row] = field(default_factory=dict[str, Row])
    topics: dict[str, Row] = field(default_factory=dict[str, Row])
    messages: dict[str, Row] = field(default_factory=dict[str, Row])
    topic_attachments: dict[str, Row] = field(default_factory=dict[str, Row])
    enrichments: dict[str, Row] = field(default_factory=dict[str, Row])
    tasks: dict[str, Row] = field(default_factory=dict[str, Row])
    leases: dict[str, Row] = field(default_factory=dict[str, Row])
    agents: dict[str, Row] = field(default_factory=dict[str, Row])
    last_event_id: int = 0
    lease_generation: int = 0
    """The largest generation that a lease was given."""
    last_touched: dict[str, int] = field(default_factory=dict[str, int])
    """Message id to the last event that changed the message: what an archive may take is decided by it."""
    enrichments_of: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Message id to the ids of its enrichments."""

    def table(self, name: str) -> dict[str, Row]:
        """The rows of one table by their keys."""
        rows: dict[str, Row] = getattr(self, name)
        return rows


def fold(events: Iterable[LoggedEvent], state: HubState | None = None) -> HubState:
    """Applies the events in order to the state (a new one by default) and returns it. Raises ``FoldError``."""
    state = state if state is not None else HubState()
    for event in events:
        if event.event_id <= state.last_event_id:
            raise FoldError(f"event {event.event_id} comes after {state.last_event_id}")
        apply = _RULES.get(event.name)
        if apply is not None:
            try:
                apply(state, event)
            except KeyError as error:
                raise FoldError(f"event {event.event_id} ({event.name}) refers to unknown {error}") from error
        state.last_event_id = event.event_id
    return state


def _refuse_twice(rows: Mapping[str, Row], row_id: str, event: LoggedEvent) -> None:
    """Ids are given once, so what is there cannot come into being."""
    if row_id in rows:
        raise FoldError(f"event {event.event_id} ({event.name}) creates {row_id} a second time")


def _channel_created(state: HubState, event: LoggedEvent) -> None:
    channel = event.data["channel"]
    _refuse_twice(state.channels, channel["id"], event)
    state.channels[channel["id"]] = {column: channel.get(column) for column in TABLES["channels"]}


def _topic_created(state: HubState, event: LoggedEvent) -> None:
    topic = event.data["topic"]
    _refuse_twice(state.topics, topic["id"], event)
    _ = state.channels[topic["channel_id"]]
    state.topics[topic["id"]] = {column: topic.get(column) for column in TABLES["topics"]}


def _topic_renamed(state: HubState, event: LoggedEvent) -> None:
    topic = state.topics[event.data["topic_id"]]
    topic["title"], topic["updated_at"] = event.data["new_title"], event.ts


def _message_created(state: HubState, event: LoggedEvent) -> None:
    message = event.data["message"]
    _refuse_twice(state.messages, message["id"], event)
    state.topics[message["topic_id"]]["updated_at"] = event.ts
    state.messages[message["id"]] = {column: message.get(column) for column in TABLES["messages"]}
    state.last_touched[message["id"]] = event.event_id


def _changed(state: HubState, event: LoggedEvent) -> Row:
    """The message that the event changed, at its new version."""
    message_id = event.data["message_id"]
    message = state.messages[message_id]
    if event.data["version"] != message["version"] + 1:
        raise FoldError(
            f"event {event.event_id} takes {message_id} from version {message['version']} to {event.data['version']}"
        )
    message["version"] = event.data["version"]
    state.last_touched[message_id] = event.event_id
    return message


def _message_edited(state: HubState, event: LoggedEvent) -> None:
    message = _changed(state, event)
    message["content_raw"], message["edited_at"] = event.data["new_content"], event.ts
    _outdate_enrichments(state, message["id"])


def _message_deleted(state: HubState, event: LoggedEvent) -> None:
    message = _changed(state, event)
    message["content_raw"], message["edited_at"] = TOMBSTONE, event.ts
    message["deleted_at"], message["deleted_by"] = event.ts, event.data["deleted_by"]
    _outdate_enrichments(state, message["id"])


def _outdate_enrichments(state: HubState, message_id: str) -> None:
    """What plugins found in the old content is no longer true of the message."""
    for enrichment_id in state.enrichments_of.get(message_id, ()):
        state.enrichments[enrichment_id]["outdated"] = 1


def _message_moved(state: HubState, event: LoggedEvent) -> None:
    message = _changed(state, event)
    if message["topic_id"] != event.data["old_topic_id"]:
        raise FoldError(f"event {event.event_id} moves {message['id']} out of a topic it is not in")
    message["topic_id"] = event.data["new_topic_id"]
    for topic_id in (event.data["old_topic_id"], event.data["new_topic_id"]):
        state.topics[topic_id]["updated_at"] = event.ts


def _attachment_added(state: HubState, event: LoggedEvent) -> None:
    attachment = event.data["attachment"]
    _refuse_twice(state.topic_attachments, attachment["id"], event)
    _ = state.topics[attachment["topic_id"]]
    row = {column: attachment.get(column) for column in TABLES["topic_attachments"]}
    row["value_json"] = canonical_json(attachment["value_json"]).decode()
    state.topic_attachments[attachment["id"]] = row


def _message_enriched(state: HubState, event: LoggedEvent) -> None:
    """The plugin's findings replace its earlier ones."""
    message_id, plugin = event.data["message_id"], event.data["plugin_name"]
    _ = state.messages[message_id]
    kept: list[str] = []
    for enrichment_id in state.enrichments_of.get(message_id, ()):
        if state.enrichments[enrichment_id]["plugin_name"] == plugin:
            del state.enrichments[enrichment_id]
        else:
            kept.append(enrichment_id)
    for enrichment_id, found in zip(event.data["enrichment_ids"], event.data["enrichments"], strict=True):
        kept.append(enrichment_id)
        state.enrichments[enrichment_id] = {
            "id": enrichment_id,
            "message_id": message_id,
            "plugin_name": plugin,
            "kind": found["kind"],
            "span_start": found["span"]["start"],
            "span_end": found["span"]["end"],
            "data_json": canonical_json(found["data"]).decode(),
            "created_at": event.ts,
            "outdated": 0,
        }
    state.enrichments_of[message_id] = kept


def _task_created(state: HubState, event: LoggedEvent) -> None:
    task = event.data["task"]
    _refuse_twice(state.tasks, task["id"], event)
    _ = state.topics[task["topic_id"]]
    state.tasks[task["id"]] = {column: task.get(column) for column in TABLES["tasks"]}


def _task_taken(state: HubState, event: LoggedEvent) -> None:
    _task_changed(state, event, taken=1)


def _task_changed(state: HubState, event: LoggedEvent, taken: int = 0) -> None:
    """A task is taken at the next generation; nothing else changes that."""
    task = event.data["task"]
    before = state.tasks[task["id"]]["generation"]
    if task["generation"] != before + taken:
        raise FoldError(f"event {event.event_id} takes {task['id']} from generation {before} to {task['generation']}")
    state.tasks[task["id"]] = {column: task.get(column) for column in TABLES["tasks"]}


def _lease_acquired(state: HubState, event: LoggedEvent) -> None:
    generation = event.data["lease"]["generation"]
    if generation <= state.lease_generation:
        raise FoldError(f"event {event.event_id} gives a lease generation {generation} after {state.lease_generation}")
    state.lease_generation = generation
    _set_lease(state, event)


def _lease_ended(state: HubState, event: LoggedEvent) -> None:
    """What ends is the lease as it was given; its generation never changes."""
    lease = event.data["lease"]
    before = state.leases[lease["id"]]["generation"]
    if lease["generation"] != before:
        raise FoldError(f"event {event.event_id} ends {lease['id']} of generation {before} at {lease['generation']}")
    _set_lease(state, event)


def _set_lease(state: HubState, event: LoggedEvent) -> None:
    lease = event.data["lease"]
    row = {column: lease.get(column) for column in TABLES["leases"]}
    row["patterns"] = canonical_json(lease["patterns"]).decode()
    state.leases[lease["id"]] = row


def _agent_registered(state: HubState, event: LoggedEvent) -> None:
    _refuse_twice(state.agents, event.data["agent"]["name"], event)
    _set_agent(state, event)


def _agent_changed(state: HubState, event: LoggedEvent) -> None:
    _ = state.agents[event.data["agent"]["name"]]
    _set_agent(state, event)


def _set_agent(state: HubState, event: LoggedEvent) -> None:
    agent = event.data["agent"]
    state.agents[agent["name"]] = {column: agent.get(column) for column in TABLES["agents"]}


def _workspace_archived(state: HubState, event: LoggedEvent) -> None:
    """Messages that nothing touched since the boundary went to the archive, with their enrichments."""
    boundary = event.data["up_to_event_id"]
    gone = {message_id for message_id, touched in state.last_touched.items() if touched <= boundary}
    for message_id in gone:
        del state.messages[message_id], state.last_touched[message_id]
        for enrichment_id in state.enrichments_of.pop(message_id, ()):
            del state.enrichments[enrichment_id]
    for attachment in state.topic_attachments.values():
        if attachment["source_message_id"] in gone:
            attachment["source_message_id"] = None


_RULES = {
    "channel.created": _channel_created,
    "topic.created": _topic_created,
    "topic.renamed": _topic_renamed,
    "message.created": _message_created,
    "message.edited": _message_edited,
    "message.deleted": _message_deleted,
    "message.moved_topic": _message_moved,
    "topic.attachment_added": _attachment_added,
    "message.enriched": _message_enriched,
    "task.created": _task_created,
    "task.claimed": _task_taken,
    "task.taken_over": _task_taken,
    "task.released": _task_changed,
    "task.completed": _task_changed,
    "task.cancelled": _task_changed,
    "task.expired": _task_changed,
    "lease.acquired": _lease_acquired,
    "lease.released": _lease_ended,
    "lease.expired": _lease_ended,
    "agent.registered": _agent_registered,
    "agent.changed": _agent_changed,
    "agent.left": _agent_changed,
    "agent.swept": _agent_changed,
    "workspace.archived": _workspace_archived,
}


class Difference(NamedTuple):
    """One place where two states disagree. ``column`` is empty when a whole row is missing on one side."""

    table: str
    id: str
    column: str
    folded: object
    stored: object


def differences(folded: HubState, stored: HubState) -> list[Difference]:
    """Where the folded log and the stored tables disagree, column by column; empty when they are equal.

    A column that the stored table does not have, because its schema is an older one, is not compared.
    """
    found: list[Difference] = []
    for table, columns in TABLES.items():
        left, right = folded.table(table), stored.table(table)
        for row_id in sorted(left.keys() | right.keys()):
            if row_id not in left or row_id not in right:
                found.append(Difference(table, row_id, "", left.get(row_id), right.get(row_id)))
                continue
            found.extend(
                Difference(table, row_id, column, left[row_id].get(column), right[row_id].get(column))
                for column in columns
                if column in right[row_id] and left[row_id].get(column) != right[row_id][column]
            )
    return found
