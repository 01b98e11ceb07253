"""Random histories of a hub, made by its own rules: every kind of event, on a clock that also jumps back."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import apsw

from parley.core.clock import ManualClock, iso
from parley.core.errors import Refused
from parley.core.ids import IdSource
from parley.core.settings import LeaseSettings, TaskSettings, UrlSettings
from parley.hub.rules.agents import leave_agent, register_agent, sweep_agent
from parley.hub.rules.attachments import add_attachment, check_attachment
from parley.hub.rules.channels import create_channel, create_topic, rename_topic
from parley.hub.rules.jobs import (
    Job,
    Queue,
    due_jobs,
    job_failed,
    queue_history,
    store_attachments,
    store_enrichments,
)
from parley.hub.rules.leases import acquire_lease, expire_leases, release_lease, renew_lease
from parley.hub.rules.messages import create_message, delete_message, edit_message
from parley.hub.rules.moves import start_move
from parley.hub.rules.tasks import (
    cancel_task,
    claim_next,
    claim_task,
    complete_task,
    create_task,
    expire_tasks,
    release_task,
    renew_task,
    take_over_task,
)
from parley.hub.transaction import Tx
from parley.wire.entities import Span
from parley.wire.events import Enrichment
from parley.wire.requests import (
    AcquireLease,
    AddAttachment,
    CancelTask,
    ClaimNext,
    ClaimTask,
    CompleteTask,
    CreateChannel,
    CreateMessage,
    CreateTask,
    CreateTopic,
    DeleteMessage,
    EditMessage,
    LeaveAgent,
    MoveMessage,
    RegisterAgent,
    ReleaseLease,
    ReleaseTask,
    RenameTopic,
    RenewLease,
    RenewTask,
    TakeOverTask,
)
from parley.workspace import queries
from parley.workspace.queries.agents import silent_agents

T = TypeVar("T")

LINKIFIERS = ("links", "names")
EXTRACTOR = "files"
AGENTS = ("ann", "bob", "eve")
PATTERNS = ("src/**", "src/hub/*.py", "docs", "README.md", "tests/[a-m]*/**")
QUEUE = Queue((*LINKIFIERS, EXTRACTOR), settle_ms=250)


class History:
    """Writes to one database as a hub would, one transaction a step."""

    def __init__(self, connection: apsw.Connection, seed: int, clock: ManualClock) -> None:
        self.connection = connection
        self.rng = random.Random(seed)
        self.clock = clock
        self.ids = IdSource(queries.largest_ids(connection))
        self.steps = 0
        self.under_way: list[Job] = []
        """What plugins have read and not finished; anything may happen to the messages meanwhile."""

    def run(self, steps: int) -> None:
        """Random steps, each at a time of its own."""
        kinds: list[tuple[Callable[[], object], int]] = [
            (self.channel, 1),
            (self.topic, 3),
            (self.message, 12),
            (self.edit, 4),
            (self.delete, 2),
            (self.move, 3),
            (self.rename, 1),
            (self.attach, 2),
            (self.take_jobs, 4),
            (self.finish_job, 8),
            (self.queue_again, 1),
            (self.register, 2),
            (self.leave, 1),
            (self.task, 3),
            (self.task_step, 8),
            (self.lease, 4),
            (self.lease_step, 3),
            (self.sweep, 2),
        ]
        for _ in range(steps):
            self.clock.jump(self.rng.choice((0, 1, 1000, 60_000, -500)))
            (step,) = self.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
            step()

    def channel(self) -> str:
        return self._do(lambda tx: create_channel(tx, CreateChannel(self._name("channel")))).channel.id

    def topic(self) -> str:
        channel = self._any("channels") or self.channel()
        return self._do(lambda tx: create_topic(tx, CreateTopic(channel, self._name("topic")))).topic.id

    def message(self, content: str | None = None) -> str:
        topic = self._any("topics") or self.topic()
        link = f" see https://example.org/{self.rng.randrange(9)}" if self.rng.random() < 0.3 else ""
        request = CreateMessage(
            topic,
            self.rng.choice(("ann", "bob")),
            content or self._name("words") + link,
            reply_to=self._any("messages"),
        )
        return self._do(lambda tx: create_message(tx, request, UrlSettings(), queue=QUEUE)).message.id

    def edit(self, message: str | None = None) -> None:
        message = message or self._any("messages", "deleted_at IS NULL") or self.message()
        self._do(lambda tx: edit_message(tx, message, EditMessage(self._name("edited")), UrlSettings(), queue=QUEUE))

    def delete(self) -> None:
        message = self._any("messages") or self.message()
        self._do(lambda tx: delete_message(tx, message, DeleteMessage("ann")))

    def move(self) -> None:
        message = self._any("messages") or self.message()
        target = self._any("topics", f"channel_id = (SELECT channel_id FROM messages WHERE id = '{message}')") or ""
        request = MoveMessage(target, self.rng.choice(("one", "later", "all")))
        self._do(lambda tx: start_move(tx, message, request, 10_000))

    def rename(self) -> None:
        topic = self._any("topics") or self.topic()
        self._do(lambda tx: rename_topic(tx, topic, RenameTopic(self._name("title"))))

    def attach(self) -> None:
        topic = self._any("topics") or self.topic()
        value = {"path": self._name("file"), "line": self.rng.randrange(100)}
        request = AddAttachment("file", value, source_message_id=self._any("messages"))
        text = check_attachment(request, 16_384)
        self._do(lambda tx: add_attachment(tx, topic, request, text))

    def enrich(self, message: str) -> None:
        """A linkifier finds something in a message that it reads now."""
        row = queries.get_message(self.connection, message)
        assert row is not None
        found = [Enrichment("link", Span(0, 1), {"n": self.steps})]
        self._do(lambda tx: store_enrichments(tx, Job("links", row), found))

    def take_jobs(self) -> None:
        """Plugins read some of the messages that wait for them."""
        plugin = self.rng.choice(QUEUE.plugins)
        self.under_way += due_jobs(self.connection, plugin, self.clock.now_ms(), self.rng.randrange(1, 6))

    def finish_job(self) -> None:
        """A plugin has found something, or nothing, or has failed."""
        if not self.under_way:
            self.take_jobs()
        if not self.under_way:
            return
        job = self.under_way.pop(self.rng.randrange(len(self.under_way)))
        if self.rng.random() < 0.2:
            most = self.rng.randrange(1, 3)
            self._do(lambda tx: job_failed(tx, job, "no", attempts_max=most, retry_ms=1000, settle_ms=QUEUE.settle_ms))
        elif job.plugin_name == EXTRACTOR:
            requests = [AddAttachment("file", {"path": f"f{self.rng.randrange(5)}"}) for _ in range(2)]
            texts = [(request, check_attachment(request, 16_384)) for request in requests]
            self._do(lambda tx: store_attachments(tx, job, texts, QUEUE.settle_ms))
        else:
            ends = range(1, self.rng.randrange(1, 4))
            found = [Enrichment("link", Span(0, end), {"n": end}) for end in ends]
            self._do(lambda tx: store_enrichments(tx, job, found, QUEUE.settle_ms))

    def queue_again(self) -> None:
        """Somebody wants history to be looked at again."""
        latest = queries.latest_event_id(self.connection)
        after, plugins = self.rng.randrange(latest + 1), [self.rng.choice(QUEUE.plugins)]
        self._do(lambda tx: queue_history(tx, plugins, after, latest))

    def register(self) -> None:
        """An agent comes, comes back, or goes on with another session."""
        name, session = self.rng.choice(AGENTS), f"session {self.rng.randrange(3)}"
        self._try(lambda tx: register_agent(tx, RegisterAgent(name, "program", None, session, force=True), ""))

    def leave(self) -> None:
        self._try(lambda tx: leave_agent(tx, self.rng.choice(AGENTS), LeaveAgent()))

    def task(self) -> None:
        """Somebody makes a task, with a topic of its own or for one that is there."""
        topic = self._any("topics", "id NOT IN (SELECT topic_id FROM tasks)") if self.rng.random() < 0.3 else None
        channel = None if topic else self._any("channels") or self.channel()
        request = CreateTask(self._name("task"), "ann", self._name("do it"), channel, topic)
        self._do(lambda tx: create_task(tx, request))

    def task_step(self) -> None:
        """Somebody does something with a task, right or wrong; what is refused leaves nothing behind."""
        task_id, holder = self._any("tasks"), self.rng.choice(AGENTS)
        if task_id is None:
            return
        task = queries.get_task(self.connection, task_id)
        assert task is not None
        generation, own = task.generation, task.holder or holder
        steps: list[Callable[[Tx], object]] = [
            lambda tx: claim_task(tx, task_id, ClaimTask(holder, 60), TaskSettings()),
            lambda tx: claim_next(tx, ClaimNext(holder), TaskSettings()),
            lambda tx: renew_task(tx, task_id, RenewTask(own, generation), TaskSettings()),
            lambda tx: release_task(tx, task_id, ReleaseTask(own, generation, "no time")),
            lambda tx: complete_task(tx, task_id, CompleteTask(own, generation, "done")),
            lambda tx: cancel_task(tx, task_id, CancelTask("ann")),
            lambda tx: take_over_task(tx, task_id, TakeOverTask(holder, "it is late", True), TaskSettings()),
        ]
        (step,) = self.rng.choices(steps, (8, 4, 3, 2, 2, 1, 2))
        self._try(step)

    def lease(self) -> None:
        patterns: list[str] = self.rng.sample(PATTERNS, self.rng.randrange(1, 3))
        request = AcquireLease(self.rng.choice(AGENTS), patterns, self.rng.choice(("shared", "exclusive")), None, 120)
        self._try(lambda tx: acquire_lease(tx, request, LeaseSettings()))

    def lease_step(self) -> None:
        lease_id = self._any("leases")
        if lease_id is None:
            return
        lease = queries.get_lease(self.connection, lease_id)
        assert lease is not None
        if self.rng.random() < 0.5:
            renewal = RenewLease(lease.holder, lease.generation)
            self._try(lambda tx: renew_lease(tx, lease_id, renewal, LeaseSettings()))
        else:
            release = ReleaseLease(lease.holder, lease.generation)
            self._try(lambda tx: release_lease(tx, lease_id, release))

    def sweep(self) -> None:
        """Time has passed: ends are written down, and somebody silent is found to be gone."""
        self._do(lambda tx: (expire_tasks(tx, 2), expire_leases(tx, 2)))
        since = iso(self.clock.now_ms() - self.rng.randrange(600_000))
        for name in silent_agents(self.connection, since, 1):
            self._do(lambda tx, name=name: sweep_agent(tx, name, since))

    def _try(self, rule: Callable[[Tx], object]) -> None:
        with suppress(Refused):
            self._do(rule)

    def _do(self, rule: Callable[[Tx], T]) -> T:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            result = rule(Tx(self.connection, self.clock.now_ms(), self.ids))
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        return result

    def _any(self, table: str, where: str = "TRUE") -> str | None:
        rows = self.connection.execute(f"SELECT id FROM {table} WHERE {where} ORDER BY id").fetchall()
        return str(self.rng.choice(rows)[0]) if rows else None

    def _name(self, word: str) -> str:
        self.steps += 1
        return f"{word} {self.steps}"
