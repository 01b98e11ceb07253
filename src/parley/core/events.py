"""The event catalogue: every name the log may hold, what it is about, and which scopes it must carry.

Scopes decide who receives an event. ``append`` in the hub checks each event against this table before it is written.
"""

from itertools import product
from typing import Final, NamedTuple


class EventSpec(NamedTuple):
    """One kind of event. ``scopes`` names the scope columns that must be filled; the others must be empty."""

    name: str
    entity: str
    scopes: frozenset[str]
    fields: tuple[str, ...]
    meaning: str


_CHANNEL = frozenset({"channel_id"})
_TOPIC = frozenset({"channel_id", "topic_id"})
_MOVE = frozenset({"channel_id", "topic_id", "topic_id2"})
_SYSTEM: frozenset[str] = frozenset()

EVENTS: Final[dict[str, EventSpec]] = {
    spec.name: spec
    for spec in (
        EventSpec("channel.created", "channel", _CHANNEL, ("channel",), "a channel was created"),
        EventSpec("topic.created", "topic", _TOPIC, ("topic",), "a topic was created"),
        EventSpec(
            "topic.renamed", "topic", _TOPIC, ("topic_id", "old_title", "new_title"), "a topic got another title"
        ),
        EventSpec("message.created", "message", _TOPIC, ("message",), "a message was posted"),
        EventSpec(
            "message.edited",
            "message",
            _TOPIC,
            ("message_id", "old_content", "new_content", "version"),
            "a message's content was replaced",
        ),
        EventSpec(
            "message.deleted",
            "message",
            _TOPIC,
            ("message_id", "deleted_by", "version"),
            "a message was replaced by a tombstone",
        ),
        EventSpec(
            "message.moved_topic",
            "message",
            _MOVE,
            ("message_id", "old_topic_id", "new_topic_id", "channel_id", "mode", "version"),
            "a message moved from one topic to another of its channel; one event per message",
        ),
        EventSpec(
            "message.enriched",
            "message",
            _TOPIC,
            ("message_id", "plugin_name", "enrichments", "enrichment_ids", "version"),
            "a plugin's findings about a message replaced its earlier ones",
        ),
        EventSpec(
            "topic.attachment_added", "attachment", _TOPIC, ("attachment",), "an attachment was added to a topic"
        ),
        EventSpec("task.created", "task", _TOPIC, ("task", "actor"), "a task was created"),
        EventSpec(
            "task.claimed", "task", _TOPIC, ("task", "actor", "previous_holder"), "somebody took the task to work on it"
        ),
        EventSpec(
            "task.released",
            "task",
            _TOPIC,
            ("task", "actor", "reason", "previous_holder"),
            "a task was given back; without an actor the hub did it, since its holder has gone",
        ),
        EventSpec("task.completed", "task", _TOPIC, ("task", "actor"), "a task's holder has done it"),
        EventSpec(
            "task.cancelled", "task", _TOPIC, ("task", "actor", "reason", "previous_holder"), "a task was called off"
        ),
        EventSpec(
            "task.taken_over",
            "task",
            _TOPIC,
            ("task", "actor", "reason", "previous_holder", "previous_generation", "forced"),
            "a task was taken from its holder, whose claim had ended unless it was forced",
        ),
        EventSpec("task.expired", "task", _TOPIC, ("task", "previous_holder"), "a claim was not renewed in time"),
        EventSpec("lease.acquired", "lease", _SYSTEM, ("lease",), "paths were reserved"),
        EventSpec(
            "lease.released",
            "lease",
            _SYSTEM,
            ("lease", "actor", "reason"),
            "a lease was given back; without an actor the hub did it, since its holder has gone",
        ),
        EventSpec("lease.expired", "lease", _SYSTEM, ("lease",), "a lease was not renewed in time"),
        EventSpec("agent.registered", "agent", _SYSTEM, ("agent",), "an agent came for the first time"),
        EventSpec(
            "agent.changed",
            "agent",
            _SYSTEM,
            ("agent", "reason"),
            "an agent came back, or goes on with another program, model or session",
        ),
        EventSpec(
            "agent.left",
            "agent",
            _SYSTEM,
            ("agent", "reason", "released_tasks", "released_leases"),
            "an agent said goodbye; what it held was given back",
        ),
        EventSpec(
            "agent.swept",
            "agent",
            _SYSTEM,
            ("agent", "released_tasks", "released_leases"),
            "an agent gave no sign of life for too long; what it held was given back",
        ),
        EventSpec(
            "schema.migrated", "workspace", _SYSTEM, ("from_version", "to_version"), "the database schema was upgraded"
        ),
        EventSpec(
            "workspace.adopted", "workspace", _SYSTEM, ("source", "messages"), "an Agentlip workspace was taken over"
        ),
        EventSpec(
            "workspace.archived",
            "workspace",
            _SYSTEM,
            ("archive", "sha256", "up_to_event_id", "events", "messages"),
            "events and untouched messages up to an event were moved to an archive file",
        ),
        EventSpec("plugin.failed", "plugin", _SYSTEM, ("plugin_name", "reason"), "a plugin was disabled"),
    )
}


def scope_problem(name: str, *, channel_id: str | None, topic_id: str | None, topic_id2: str | None) -> str | None:
    """What is wrong with an event's scopes, or None. An unknown name is wrong too."""
    spec = EVENTS.get(name)
    if spec is None:
        return f"{name} is not in the event catalogue"
    given = _SCOPES[(channel_id is not None, topic_id is not None, topic_id2 is not None)]
    if given == spec.scopes:
        return None
    return f"{name} must carry the scopes {sorted(spec.scopes)}, not {sorted(given)}"


_SCOPES: Final = {
    present: frozenset(
        scope for scope, there in zip(("channel_id", "topic_id", "topic_id2"), present, strict=True) if there
    )
    for present in product((False, True), repeat=3)
}
"""Which scopes are there, as a set; every event that is written asks for it."""
