"""A workspace with a long history, written by the hub's own rules in a few large transactions, not by requests."""

from pathlib import Path
from typing import Final

from parley.core.clock import SystemClock
from parley.core.ids import IdSource
from parley.core.settings import UrlSettings
from parley.hub.lifecycle import prepare_database
from parley.hub.rules.channels import create_channel, create_topic
from parley.hub.rules.messages import create_message
from parley.hub.transaction import Tx
from parley.sqlite import close_quietly, open_writer
from parley.wire.requests import CreateChannel, CreateMessage, CreateTopic
from parley.workspace import queries
from parley.workspace.fts import index_new
from tests.hub.hubs import settings_of, workspace_in

SENDERS: Final = ("planner", "builder", "reviewer", "ada")
BATCH: Final = 10_000
PACE_MS: Final = 1_000


def long_topic(folder: Path, count: int) -> tuple[str, list[str]]:
    """A topic of ``count`` messages in a new workspace, one a second until now: its id, and theirs from the oldest."""
    workspace, clock = workspace_in(folder), SystemClock()
    prepare_database(workspace, settings_of(), clock)
    connection = open_writer(workspace.db)
    new_ids = IdSource(queries.largest_ids(connection))
    start_ms = clock.now_ms() - count * PACE_MS
    try:
        with connection:
            tx = Tx(connection, start_ms, new_ids)
            channel_id = create_channel(tx, CreateChannel("history")).channel.id
            topic_id = create_topic(tx, CreateTopic(channel_id, "A long story")).topic.id
        message_ids: list[str] = []
        for first in range(0, count, BATCH):
            with connection:
                for number in range(first, min(first + BATCH, count)):
                    tx = Tx(connection, start_ms + number * PACE_MS, new_ids)
                    request = CreateMessage(topic_id, SENDERS[number % len(SENDERS)], _text(number))
                    message_ids.append(create_message(tx, request, UrlSettings()).message.id)
                index_new(connection)
    finally:
        close_quietly(connection)
    return topic_id, message_ids


def _text(number: int) -> str:
    """Short and long ones, so that no two neighbours are equally high."""
    return f"Entry number {number}." + " And so the work went on, step by step." * (number * 7 % 11)
