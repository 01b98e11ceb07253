"""The hub's real rules on its real schema, through the batch logic that its writer runs, on a disk that may fail.

Random posts, edits, deletes, moves (in chunks), attachments, links, tasks, claims, leases and ends that have come, many
with idempotency keys; a share of the runs also makes the schema on the failing disk. Afterwards the file must pass the
judge, unfinished moves must finish, and a retry of any operation must have one effect in all.
"""

import contextlib
import functools
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from parley.core.clock import ManualClock
from parley.core.errors import ParleyError
from parley.core.ids import IdSource
from parley.core.settings import LeaseSettings, TaskSettings, UrlSettings
from parley.hub.rules.attachments import add_attachment, check_attachment
from parley.hub.rules.channels import create_channel, create_topic
from parley.hub.rules.idempotency import Once
from parley.hub.rules.leases import acquire_lease, expire_leases
from parley.hub.rules.messages import create_message, delete_message, edit_message
from parley.hub.rules.moves import Moving, continue_move, start_move, unfinished_moves
from parley.hub.rules.tasks import claim_next, create_task, expire_tasks
from parley.hub.transaction import Tx
from parley.sqlite import apply_pragma, checkpoint_once, close_quietly, open_writer, run_batch
from parley.wire.answers import AttachmentResult, LeaseResult, MessageResult, MoveResult, NextTask, TaskResult
from parley.wire.requests import (
    AcquireLease,
    AddAttachment,
    ClaimNext,
    CreateChannel,
    CreateMessage,
    CreateTask,
    CreateTopic,
    DeleteMessage,
    EditMessage,
    MoveMessage,
)
from parley.workspace import queries
from parley.workspace.layout import Workspace
from parley.workspace.prepare import prepare
from tests.campaign.judge import Ack, effects_of, judge

FRESH_SHARE = 0.1
"""Runs that make the schema on the failing disk, too."""
MOVE_BATCH = 3
BATCHES = 12
RETRIES = 4
_URLS = UrlSettings()
KINDS = ("post",) * 6 + ("edit", "delete", "move", "attach", "task", "claim", "lease", "sweep")
ENTITIES = ("message", "attachment", "task", "lease")
Results = MessageResult | AttachmentResult | TaskResult | NextTask | LeaseResult
Rule = Callable[[Tx], Any]


@dataclass
class Operation:
    """One write that a caller asked for."""

    tag: str
    name: str
    rule: Rule
    keyed: bool
    ack: Ack | None = None


class RulesWorkload:
    """For the campaigns of ``tests.faults``. ``level`` other than full exists only for the control that must fail."""

    def __init__(self, rng: random.Random, level: str = "full", batches: int = BATCHES) -> None:
        self.rng = rng
        self.level = level
        self.batches = batches
        self.clock = ManualClock()
        self.acks: list[Ack] = []
        self.untyped: list[str] = []
        self.refusals = 0
        self.operations: list[Operation] = []
        self.live: list[str] = []
        self.moving: list[int] = []
        self.topics: list[str] = []
        self.channel_id = ""
        self.connection: apsw.Connection | None = None
        self.checkpoints: apsw.Connection | None = None

    def setup(self, path: Path, vfs: str) -> None:
        fts = self.rng.random() < 0.5
        fresh = self.rng.random() < FRESH_SHARE
        if not fresh:
            path.write_bytes(_template(fts))
        with contextlib.suppress(ParleyError, apsw.Error):  # the failure may come as early as this
            self.connection = self._open(path, vfs)
            prepare(self.connection, Workspace(path.parent, path.parent), clock=self.clock, fts=fts)
            self.checkpoints = self._open(path, vfs)
            self.ids = IdSource(queries.largest_ids(self.connection))

    def step(self) -> bool:
        if self.connection is None or self.checkpoints is None or self.batches == 0:
            return False
        self.batches -= 1
        self.clock.advance(self.rng.random())
        if not self.topics:
            self._make_topics(self.connection)
            return True
        operations = [self._operation() for _ in range(self.rng.randint(1, 5))]
        self.operations += operations
        self._run(self.connection, operations)
        if self.rng.random() < 0.3:
            with contextlib.suppress(ParleyError, apsw.Error):
                checkpoint_once(self.checkpoints, self.rng.choice(("passive", "truncate")))
        return True

    def close(self) -> None:
        for connection in (self.checkpoints, self.connection):
            close_quietly(connection)

    def check(self, path: Path) -> list[str]:
        """Opens what was left as a hub would at its next start, and goes on with it."""
        if not path.exists():
            return ["the file is gone"] if self.acks else []
        connection: apsw.Connection | None = None
        try:
            connection = open_writer(path)
            prepare(connection, Workspace(path.parent, path.parent), clock=self.clock, fts=True)
            problems = judge(connection, self.acks)
            return self.untyped + problems if problems else self.untyped + self._go_on(connection)
        except (ParleyError, apsw.Error) as error:
            return [*self.untyped, f"damaged: {error!r}"]
        finally:
            close_quietly(connection)

    def _go_on(self, connection: apsw.Connection) -> list[str]:
        """The disk works again: moves finish, retries have one effect, and new writes succeed."""
        self.ids = IdSource(queries.largest_ids(connection))
        problems: list[str] = []
        move_ids = run_batch(connection, [unfinished_moves])[0].value
        for move_id in move_ids or []:
            while isinstance(
                self._alone(connection, lambda tx, number=move_id: continue_move(tx, number, MOVE_BATCH)), Moving
            ):
                pass
        for operation in [each for each in self.operations if each.keyed][-RETRIES:]:
            value = self._alone(connection, operation.rule)
            if isinstance(value, ParleyError):
                if operation.ack is not None:
                    problems.append(f"{operation.tag} was acknowledged, and its retry refused: {value!r}")
            elif operation.ack is not None and not value.duplicate:
                problems.append(f"{operation.tag} was acknowledged, and its retry is no duplicate")
            elif not isinstance(value, MoveResult | Moving) and effects_of(connection, operation.tag) > 1:
                problems.append(f"{operation.tag} took effect twice")
        return problems + judge(connection, self.acks)

    def _alone(self, connection: apsw.Connection, rule: Rule) -> Any:
        (outcome,) = run_batch(connection, [self._write(rule)])
        return outcome.value if outcome.error is None else outcome.error

    def _open(self, path: Path, vfs: str) -> apsw.Connection:
        connection = open_writer(path, vfs=vfs)
        if self.level != "full":
            apply_pragma(connection, "synchronous", {"normal": 1, "off": 0}[self.level])
        return connection

    def _make_topics(self, connection: apsw.Connection) -> None:
        channel = self._alone(connection, lambda tx: create_channel(tx, CreateChannel(f"c{self.batches}")))
        if isinstance(channel, Exception):
            return
        self.channel_id = channel.channel.id
        self.acks.append(Ack(channel.event_id, "channel.created", channel.channel.id))
        for title in ("one", "two", "three"):
            topic = self._alone(connection, lambda tx, t=title: create_topic(tx, CreateTopic(channel.channel.id, t)))
            if not isinstance(topic, Exception):
                self.acks.append(Ack(topic.event_id, "topic.created", topic.topic.id))
                self.topics.append(topic.topic.id)

    def _run(self, connection: apsw.Connection, operations: list[Operation]) -> None:
        outcomes = run_batch(connection, [self._write(operation.rule) for operation in operations])
        for operation, outcome in zip(operations, outcomes, strict=True):
            if outcome.error is None:
                self._acknowledged(operation, outcome.value)
            elif isinstance(outcome.error, ParleyError) and outcome.error.status != 500:
                self.refusals += 1
            else:
                self.untyped.append(f"{operation.tag} was refused with {outcome.error!r}")

    def _acknowledged(self, operation: Operation, value: Any) -> None:
        if isinstance(value, Moving):
            self.moving.append(value.move_id)
        elif isinstance(value, MoveResult):
            self.acks += [Ack(event_id, operation.name, "") for event_id in value.event_ids]
        elif isinstance(value, Results) and value.event_id is not None:
            entity: Any = next(getattr(value, name) for name in ENTITIES if hasattr(value, name))
            operation.ack = Ack(value.event_id, operation.name, entity.id, operation.tag)
            if operation.name in ("message.deleted", "task.claimed"):
                operation.ack = operation.ack._replace(tag=None)
            if operation.name == "message.created":
                self.live.append(entity.id)
            self.acks.append(operation.ack)

    def _write(self, rule: Rule) -> Callable[[apsw.Connection], Any]:
        return lambda db: rule(Tx(db, self.clock.now_ms(), self.ids))

    def _operation(self) -> Operation:
        tag = f"op-{len(self.operations)}-{self.rng.randrange(1 << 30)}"
        once = Once(tag, tag.encode()) if self.rng.random() < 0.5 else None
        kind = self.rng.choice(KINDS) if self.live else "post"
        if self.moving and self.rng.random() < 0.7:
            number = self.moving.pop(0)
            return Operation(tag, "message.moved_topic", lambda tx: continue_move(tx, number, MOVE_BATCH), keyed=False)
        name, rule = getattr(self, f"_{kind}")(tag, once)
        return Operation(tag, name, rule, keyed=once is not None and kind != "sweep")

    def _post(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        link = f" https://example.org/{tag}" if self.rng.random() < 0.2 else ""
        request = CreateMessage(self.rng.choice(self.topics), "agent", f"{tag} {'y' * self.rng.randrange(1500)}{link}")
        return "message.created", lambda tx: create_message(tx, request, _URLS, once)

    def _edit(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        message_id, request = self.rng.choice(self.live), EditMessage(f"{tag} {'z' * self.rng.randrange(1500)}")
        return "message.edited", lambda tx: edit_message(tx, message_id, request, _URLS, once)

    def _delete(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        message_id = self.live.pop(self.rng.randrange(len(self.live)))
        return "message.deleted", lambda tx: delete_message(tx, message_id, DeleteMessage("agent"), once)

    def _move(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        message_id = self.rng.choice(self.live)
        request = MoveMessage(self.rng.choice(self.topics), self.rng.choice(("one", "later", "all")))
        return "message.moved_topic", lambda tx: start_move(tx, message_id, request, MOVE_BATCH, once)

    def _attach(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        topic_id, request = self.rng.choice(self.topics), AddAttachment("note", {"tag": tag})
        text = check_attachment(request, 1000)
        return "topic.attachment_added", lambda tx: add_attachment(tx, topic_id, request, text, once)

    def _task(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        request = CreateTask(tag, "agent", "y" * self.rng.randrange(500), self.channel_id)
        return "task.created", lambda tx: create_task(tx, request, once)

    def _claim(self, _tag: str, once: Once | None) -> tuple[str, Rule]:
        request = ClaimNext(f"agent-{self.rng.randrange(3)}", ttl_seconds=self.rng.choice((1, 3600)))
        return "task.claimed", lambda tx: claim_next(tx, request, TaskSettings(), once)

    def _lease(self, tag: str, once: Once | None) -> tuple[str, Rule]:
        holder, ttl_seconds = f"agent-{self.rng.randrange(3)}", self.rng.choice((1, 3600))
        request = AcquireLease(holder, [f"{tag}/**"], "exclusive", tag, ttl_seconds)
        return "lease.acquired", lambda tx: acquire_lease(tx, request, LeaseSettings(), once)

    def _sweep(self, _tag: str, _once: Once | None) -> tuple[str, Rule]:
        return "swept", lambda tx: expire_tasks(tx, 10) + expire_leases(tx, 10)


@functools.cache
def _template(fts: bool) -> bytes:
    """A prepared, empty database, made once per process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        connection = open_writer(folder / "db.sqlite3")
        prepare(connection, Workspace(folder, folder), clock=ManualClock(), fts=fts)
        connection.close()
        return (folder / "db.sqlite3").read_bytes()
