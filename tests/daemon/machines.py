"""A mesh's machine with a clock that stands still, an outbox, and nothing else."""

from collections.abc import Callable
from typing import Any

import apsw
from msgspec.structs import replace

from parley.core.clock import ManualClock
from parley.daemon.effects import Effect, Settle, Take, Transmit
from parley.daemon.instant import Instant
from parley.daemon.link import LinkSettings, Member
from parley.daemon.mesh_loop import MeshLoop
from parley.daemon.outbox.rows import OutboxRow, by_client_id
from parley.daemon.outbox.sending import settle, take_due
from parley.wire.broker import (
    Accepted,
    Challenge,
    FeatureParams,
    Features,
    FromBroker,
    FromDaemon,
    Problem,
    RefusedSend,
    Send,
    Welcome,
)
from tests.daemon.world import ALICE, DAY, NOW, commit, message, put

MEMBER = Member("mesh_1", "team", "mem_alice", ALICE, "inst_1", "host", "1.0", lambda data: b"\1" * 64)
CHALLENGE = Challenge("9" * 64, "brk_1")
WELCOME = Welcome(
    connection_id="con_1",
    member_id="mem_alice",
    display_name="alice",
    role="member",
    mesh_id="mesh_1",
    mesh_slug="team",
    key_epoch=1,
    inline_bytes_max=65_536,
    window=4,
    lease_ms=30_000,
    heartbeat_ms=30_000,
)
DEDUPE = {"version": 2, "mode": "retention_scoped", "dedupe_retention_days": 30, "request_fingerprint": True}
FEATURES = Features(
    {
        "client_message_id_dedupe": FeatureParams(DEDUPE),
        "concurrent_connection_policy": FeatureParams({"version": 1}),
    }
)


class Bench:
    """Runs the machine over a real outbox: ``Take`` and ``Settle`` are done, the rest is kept to be looked at."""

    def __init__(self, outbox: apsw.Connection, settings: LinkSettings | None = None, mesh_id: str = "mesh_1") -> None:
        self.clock = ManualClock(NOW)
        self.outbox = outbox
        self.mesh_id = mesh_id
        self.loop = MeshLoop(MEMBER._replace(mesh_id=mesh_id), settings or LinkSettings(), lambda: 0.5)
        self.done: list[Effect] = []

    @property
    def now(self) -> Instant:
        return Instant(self.clock.now_ms(), self.clock.monotonic())

    def run(self, step: Callable[..., list[Effect]], *args: Any) -> list[Effect]:
        """One step of the machine; what it asked for, and what that led to."""
        effects = step(*args, self.now)
        seen: list[Effect] = []
        while effects:
            seen += effects
            following: list[Effect] = []
            for effect in effects:
                following += self._do(effect)
            effects = following
        self.done += seen
        return seen

    def connect(self, **welcome: Any) -> list[Effect]:
        """From wherever it is to ready."""
        self.run(self.loop.start)
        self.run(self.loop.on_connected)
        self.run(self.loop.on_frame, CHALLENGE)
        self.run(self.loop.on_frame, replace(WELCOME, **welcome))
        return self.run(self.loop.on_frame, FEATURES)

    def say(self, frame: FromBroker) -> list[Effect]:
        return self.run(self.loop.on_frame, frame)

    def wait(self) -> list[Effect]:
        """Lets the time pass until the machine wants its timer, and gives it."""
        deadline = self.loop.deadline
        assert deadline is not None
        self.clock.advance(max(0.0, deadline - self.clock.monotonic()) + 0.001)
        return self.run(self.loop.on_timer)

    def put(self, client_id: str, **changes: Any) -> list[Effect]:
        put(self.outbox, message(client_id, **changes), now_ms=self.clock.now_ms())
        return self.run(self.loop.wake)

    def row(self, client_id: str) -> OutboxRow:
        found = by_client_id(self.outbox, client_id)
        assert found is not None
        return found

    def _do(self, effect: Effect) -> list[Effect]:
        if isinstance(effect, Take):
            due = commit(
                self.outbox,
                lambda db: take_due(
                    db, self.mesh_id, now_ms=self.clock.now_ms(), limit=effect.limit, max_age_ms=30 * DAY
                ),
            )
            return self.loop.on_taken(due, self.now)
        if isinstance(effect, Settle):
            for settlement in effect.settlements:
                commit(
                    self.outbox, lambda db, settlement=settlement: settle(db, settlement, now_ms=self.clock.now_ms())
                )
        return []


def frames(effects: list[Effect]) -> list[FromDaemon]:
    return [effect.frame for effect in effects if isinstance(effect, Transmit)]


def sent(effects: list[Effect]) -> list[str]:
    """The ids of the messages among what was transmitted."""
    return [frame.client_message_id for frame in frames(effects) if isinstance(frame, Send)]


def accepted(client_id: str) -> Accepted:
    return Accepted(client_id, 201, f"bm_{client_id}", 1, False)


def refused(client_id: str, status: int, *, transient: bool = False, retry_after_ms: int | None = None) -> RefusedSend:
    return RefusedSend(client_id, Problem(f"CODE_{status}", "no", status, transient), retry_after_ms)
