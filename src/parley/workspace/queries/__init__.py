"""Read queries over any connection to a workspace's database: constant statements in, wire structs out."""

from parley.workspace.queries.agents import get_agent, list_agents
from parley.workspace.queries.derived import list_enrichments, message_history
from parley.workspace.queries.entities import (
    Page,
    find_attachment,
    find_channel,
    get_attachment,
    get_channel,
    get_message,
    get_topic,
    largest_ids,
    list_attachments,
    list_channels,
    list_topics,
    page_messages,
    read_meta,
)
from parley.workspace.queries.events import (
    Floor,
    latest_event_id,
    logged_events,
    oldest_cursor,
    page_events,
    read_events,
    read_frames,
    stored_state,
    tail_events,
)
from parley.workspace.queries.leases import get_lease, list_leases
from parley.workspace.queries.search import Hits, search
from parley.workspace.queries.tasks import get_task, list_tasks, topic_id_of

__all__ = [
    "Floor",
    "Hits",
    "Page",
    "find_attachment",
    "find_channel",
    "get_agent",
    "get_attachment",
    "get_channel",
    "get_lease",
    "get_message",
    "get_task",
    "get_topic",
    "largest_ids",
    "latest_event_id",
    "list_agents",
    "list_attachments",
    "list_channels",
    "list_enrichments",
    "list_leases",
    "list_tasks",
    "list_topics",
    "logged_events",
    "message_history",
    "oldest_cursor",
    "page_events",
    "page_messages",
    "read_events",
    "read_frames",
    "read_meta",
    "search",
    "stored_state",
    "tail_events",
    "topic_id_of",
]
