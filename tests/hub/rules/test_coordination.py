"""Random agents with tasks and leases against a simple model of who holds what, on a clock that jumps.

Whatever is tried, in whatever order and with whatever old generation: a task never has two holders at one generation,
an old holder can do nothing, no two holders ever have overlapping paths unless both share them, and the folded log is
the tables.
"""

import shutil
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from parley.core.clock import ManualClock, iso
from parley.core.errors import Refused
from parley.core.fold import differences, fold
from parley.core.ids import IdSource
from parley.core.patterns import overlap
from parley.core.settings import LeaseSettings, TaskSettings
from parley.hub.rules.agents import leave_agent, register_agent, sweep_agent
from parley.hub.rules.channels import create_channel
from parley.hub.rules.idempotency import Once
from parley.hub.rules.leases import acquire_lease, expire_leases, release_lease, renew_lease
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
from parley.sqlite import apply_pragma
from parley.wire.entities import Lease, LeaseMode, Task
from parley.wire.requests import (
    AcquireLease,
    CancelTask,
    ClaimNext,
    ClaimTask,
    CompleteTask,
    CreateChannel,
    CreateTask,
    LeaveAgent,
    RegisterAgent,
    ReleaseLease,
    ReleaseTask,
    RenewLease,
    RenewTask,
    TakeOverTask,
)
from parley.workspace import queries
from tests.campaign.holds import hold_problems
from tests.workspace.databases import START_MS, new_workspace, prepared, writing

T = TypeVar("T")
AGENTS = st.sampled_from(["ann", "bob", "eve"])
NUMBERS = st.integers(0, 3)
TTL = st.sampled_from([1, 10, 60])
PATTERNS = st.lists(
    st.sampled_from(["a/**", "a/b", "a/*.py", "a/x.py", "**/x.py", "b/[xy].py", "b/"]), min_size=1, max_size=2
)
MODES: st.SearchStrategy[LeaseMode] = st.sampled_from(["shared", "exclusive"])
KEYS = st.none() | st.integers(0, 5)


class CoordinationMachine(RuleBasedStateMachine):
    """The model knows of each task and generation who took it, and which was the last."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="parley-coordination-"))
        workspace = new_workspace(self.folder)
        self.opened = writing(workspace)
        self.connection = self.opened.__enter__()
        apply_pragma(self.connection, "synchronous", 0)  # no power is cut here
        prepared(self.connection, workspace, fts=False)
        self.clock = ManualClock(START_MS)
        self.ids = IdSource()
        self.tasks: list[str] = []
        self.leases: list[Lease] = []
        self.took: dict[tuple[str, int], str] = {}
        self.newest: dict[str, int] = {}
        self.completed: set[str] = set()
        self.channel = self._do(lambda tx: create_channel(tx, CreateChannel("work"))).channel.id
        self.create()

    @rule()
    def create(self) -> None:
        request = CreateTask(f"task {len(self.tasks)}", "ann", channel_id=self.channel)
        self.tasks.append(self._do(lambda tx: create_task(tx, request)).task.id)

    @rule(holder=AGENTS, number=NUMBERS, ttl=TTL, key=KEYS)
    def claim(self, holder: str, number: int, ttl: int, key: int | None) -> None:
        task_id = self.tasks[number % len(self.tasks)]
        once = self._once("claim", key, task_id, holder, ttl)
        done = self._try(lambda tx: claim_task(tx, task_id, ClaimTask(holder, ttl), TaskSettings(), once))
        if done is not None and not done.duplicate:
            self._taken(done.task, holder)

    @rule(holder=AGENTS, ttl=TTL)
    def claim_any(self, holder: str, ttl: int) -> None:
        done = self._do(lambda tx: claim_next(tx, ClaimNext(holder, ttl_seconds=ttl), TaskSettings()))
        if done.task is not None:
            self._taken(done.task, holder)

    @rule(holder=AGENTS, number=NUMBERS, force=st.booleans(), ttl=TTL)
    def take_over(self, holder: str, number: int, force: bool, ttl: int) -> None:
        task_id = self.tasks[number % len(self.tasks)]
        request = TakeOverTask(holder, "I want it", force, ttl)
        before = self._live_holder(task_id)
        done = self._try(lambda tx: take_over_task(tx, task_id, request, TaskSettings()))
        if done is not None:
            assert force or before in (None, holder)
            self._taken(done.task, holder)

    @rule(holder=AGENTS, number=NUMBERS, back=st.integers(0, 2), step=st.sampled_from(["renew", "release", "complete"]))
    def act_as_holder(self, holder: str, number: int, back: int, step: str) -> None:
        """The generation may be an old one; then nothing may come of it."""
        task_id = self.tasks[number % len(self.tasks)]
        generation = max(0, self.newest.get(task_id, 0) - back)
        may = self._live_holder(task_id) == holder and back == 0
        done_before = task_id in self.completed
        steps: dict[str, Callable[[Tx], object]] = {
            "renew": lambda tx: renew_task(tx, task_id, RenewTask(holder, generation), TaskSettings()),
            "release": lambda tx: release_task(tx, task_id, ReleaseTask(holder, generation)),
            "complete": lambda tx: complete_task(tx, task_id, CompleteTask(holder, generation)),
        }
        succeeded = self._try(steps[step]) is not None
        if step == "complete" and done_before:
            return  # the same claim may say it again
        assert succeeded == may
        if succeeded and step == "complete":
            self.completed.add(task_id)

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        task_id = self.tasks[number % len(self.tasks)]
        self._try(lambda tx: cancel_task(tx, task_id, CancelTask("ann")))

    @rule(holder=AGENTS, patterns=PATTERNS, mode=MODES, ttl=TTL, key=KEYS)
    def acquire(self, holder: str, patterns: list[str], mode: LeaseMode, ttl: int, key: int | None) -> None:
        request = AcquireLease(holder, patterns, mode, None, ttl)
        once = self._once("acquire", key, holder, patterns, mode, ttl)
        done = self._try(lambda tx: acquire_lease(tx, request, LeaseSettings(), once))
        if done is not None and done.event_id is not None and not done.duplicate:
            assert all(done.lease.generation > lease.generation for lease in self.leases)
            self.leases.append(done.lease)

    @precondition(lambda self: self.leases)
    @rule(holder=AGENTS, number=st.integers(0, 50), back=st.integers(0, 1), release=st.booleans())
    def act_on_lease(self, holder: str, number: int, back: int, release: bool) -> None:
        lease = self.leases[number % len(self.leases)]
        generation = lease.generation - back
        if release:
            done = self._try(lambda tx: release_lease(tx, lease.id, ReleaseLease(holder, generation)))
        else:
            renewal = RenewLease(holder, generation, 60)
            done = self._try(lambda tx: renew_lease(tx, lease.id, renewal, LeaseSettings()))
        assert done is None or (holder, back) == (lease.holder, 0)

    @rule(name=AGENTS, session=NUMBERS)
    def come(self, name: str, session: int) -> None:
        request = RegisterAgent(name, session=f"session {session}")
        self._try(lambda tx: register_agent(tx, request, iso(self.clock.now_ms() - 60_000)))

    @rule(name=AGENTS)
    def go(self, name: str) -> None:
        left = self._try(lambda tx: leave_agent(tx, name, LeaveAgent()))
        if left is not None and left.event_id is not None:
            self._holds_nothing(name)

    @rule(name=AGENTS)
    def be_swept(self, name: str) -> None:
        if self._do(lambda tx: sweep_agent(tx, name, tx.ts)):
            self._holds_nothing(name)

    @rule()
    def write_down_ends(self) -> None:
        self._do(lambda tx: (expire_tasks(tx, 2), expire_leases(tx, 2)))

    @rule(milliseconds=st.sampled_from([0, 1, 999, 1000, 10_000, 60_000, -1, -5000]))
    def clock_jumps(self, milliseconds: int) -> None:
        self.clock.jump(milliseconds)

    @invariant()
    def no_two_have_overlapping_paths(self) -> None:
        if not hasattr(self, "connection"):
            return
        active, _ = queries.list_leases(self.connection, now=self._now(), status="active", limit=1000)
        for left, right in combinations(active, 2):
            if left.holder != right.holder and "exclusive" in (left.mode, right.mode):
                assert not any(overlap(a, b) for a in left.patterns for b in right.patterns)

    def teardown(self) -> None:
        if not hasattr(self, "connection"):
            return
        events = list(queries.logged_events(self.connection))
        assert differences(fold(events), queries.stored_state(self.connection)) == []
        assert hold_problems(events) == []
        self.opened.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    def _taken(self, task: Task, holder: str) -> None:
        assert (task.holder, task.status) == (holder, "claimed")
        assert task.generation == self.newest.get(task.id, 0) + 1
        assert task.id not in self.completed
        self.newest[task.id] = task.generation
        self.took[task.id, task.generation] = holder

    def _live_holder(self, task_id: str) -> str | None:
        tasks, _ = queries.list_tasks(self.connection, now=self._now(), status="claimed", limit=1000)
        return next((task.holder for task in tasks if task.id == task_id), None)

    def _holds_nothing(self, name: str) -> None:
        assert queries.list_tasks(self.connection, now=self._now(), status="claimed", holder=name, limit=9)[0] == []
        assert queries.list_leases(self.connection, now=self._now(), status="active", holder=name, limit=9)[0] == []

    def _once(self, kind: str, key: int | None, *said: object) -> Once | None:
        return None if key is None else Once(f"{kind}-{key}", repr(said).encode())

    def _now(self) -> str:
        return iso(self.clock.now_ms())

    def _try(self, rule: Callable[[Tx], T]) -> T | None:
        """What came of it, or None if it was refused, which leaves nothing behind."""
        try:
            return self._do(rule)
        except Refused:
            return None

    def _do(self, rule: Callable[[Tx], T]) -> T:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            result = rule(Tx(self.connection, self.clock.now_ms(), self.ids))
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        return result


CoordinationMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestCoordinationMachine = CoordinationMachine.TestCase
