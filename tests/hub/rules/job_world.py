"""A database and the rules of derived work, called as a hub with plugins calls them."""

from collections.abc import Callable
from typing import Any

import apsw

from parley.core.clock import ManualClock
from parley.core.ids import IdSource
from parley.core.settings import UrlSettings
from parley.hub.rules.attachments import check_attachment
from parley.hub.rules.channels import create_channel, create_topic
from parley.hub.rules.jobs import Job, Queue, due_jobs, job_failed, store_attachments, store_enrichments
from parley.hub.rules.messages import create_message, delete_message, edit_message
from parley.hub.rules.moves import start_move
from parley.hub.transaction import Tx
from parley.sqlite import run_batch
from parley.wire.entities import Span
from parley.wire.events import Enrichment
from parley.wire.requests import (
    AddAttachment,
    CreateChannel,
    CreateMessage,
    CreateTopic,
    DeleteMessage,
    EditMessage,
    MoveMessage,
)
from parley.workspace import queries

SETTLE_MS = 250
RETRY_MS = 1_000
LINKS, NAMES = Queue(("links",), SETTLE_MS), Queue(("links", "names"), SETTLE_MS)
FOUND = [Enrichment("link", Span(0, 5), {"url": "https://example.org/"})]


class World:
    """A database, and the rules as a hub with plugins calls them."""

    def __init__(self, connection: apsw.Connection, clock: ManualClock) -> None:
        self.connection = connection
        self.clock = clock
        self.ids = IdSource()
        channel = self.do(lambda tx: create_channel(tx, CreateChannel("c"))).channel.id
        self.topics = [
            self.do(lambda tx, title=title: create_topic(tx, CreateTopic(channel, title))).topic.id for title in "ab"
        ]

    def do(self, rule: Callable[[Tx], Any]) -> Any:
        (outcome,) = run_batch(self.connection, [lambda db: rule(Tx(db, self.clock.now_ms(), self.ids))])
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def post(self, content: str = "hello there", queue: Queue = LINKS) -> str:
        request = CreateMessage(self.topics[0], "ann", content)
        return self.do(lambda tx: create_message(tx, request, UrlSettings(), queue=queue)).message.id

    def edit(self, message_id: str, content: str = "hello again", queue: Queue = LINKS) -> None:
        self.do(lambda tx: edit_message(tx, message_id, EditMessage(content), UrlSettings(), queue=queue))

    def delete(self, message_id: str) -> None:
        self.do(lambda tx: delete_message(tx, message_id, DeleteMessage("ann")))

    def move(self, message_id: str, to: int = 1) -> None:
        self.do(lambda tx: start_move(tx, message_id, MoveMessage(self.topics[to], "one"), 100))

    def take(self, plugin: str = "links", limit: int = 100) -> list[Job]:
        return due_jobs(self.connection, plugin, self.clock.now_ms(), limit)

    def enrich(self, job: Job, found: list[Enrichment] = FOUND) -> str:
        return self.do(lambda tx: store_enrichments(tx, job, found, SETTLE_MS))

    def extract(self, job: Job, *values: dict[str, Any]) -> str:
        requests = [AddAttachment("file", value) for value in values]
        texts = [(request, check_attachment(request, 16_384)) for request in requests]
        return self.do(lambda tx: store_attachments(tx, job, texts, SETTLE_MS))

    def fail(self, job: Job, problem: str = "no", attempts_max: int = 3) -> str:
        return self.do(
            lambda tx: job_failed(tx, job, problem, attempts_max=attempts_max, retry_ms=RETRY_MS, settle_ms=SETTLE_MS)
        )

    def jobs(self) -> list[tuple[Any, ...]]:
        """Message, plugin, state, attempts, when it is due from now, and what was wrong."""
        now_ms = self.clock.now_ms()
        rows: Any = self.connection.execute(
            "SELECT message_id, plugin_name, state, attempts, not_before_ms - ?, problem FROM jobs", (now_ms,)
        )
        return sorted(rows)

    def events(self, *names: str) -> list[Any]:
        return [event for event in queries.logged_events(self.connection) if event.name in names]

    def enrichments(self) -> list[Any]:
        rows = self.connection.execute(
            "SELECT message_id, plugin_name, kind, span_start, span_end, data_json, outdated FROM enrichments"
        )
        return sorted(rows.fetchall())
