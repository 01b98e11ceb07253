"""The fold on Spark: from events to current state and history, as functions of DataFrames without any effect.

They take rows of the event schema, of any number of hubs, and give what ``parley.core.fold`` gives, column by column.
First ``read_facts`` looks at whole hubs; ``quarantined`` finds the events that cannot be folded; the rest,
``accepted``, is folded into current tables and into history.
"""

from parley.pipeline.fold.current import (
    attachments,
    channels,
    current_tables,
    enrichments,
    messages,
    topic_touches,
    topics,
    whole_rows,
)
from parley.pipeline.fold.facts import Archive, Facts, read_archives, read_facts
from parley.pipeline.fold.history import message_versions, moves, topic_titles
from parley.pipeline.fold.quarantine import REASONS, Known, accepted, quarantined

__all__ = [
    "REASONS",
    "Archive",
    "Facts",
    "Known",
    "accepted",
    "attachments",
    "channels",
    "current_tables",
    "enrichments",
    "message_versions",
    "messages",
    "moves",
    "quarantined",
    "read_archives",
    "read_facts",
    "topic_titles",
    "topic_touches",
    "topics",
    "whole_rows",
]
