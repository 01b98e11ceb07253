"""Both stores are driven through the same random life and give the same answers, errors among them.

The store in the file is closed and opened again in between, which must change nothing but the counter.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from parley.bus import Bounds, CallLimit, MemoryMeshStore, MeshStore, StoreBounds
from parley.bus.sqlite_store import SqliteMeshStore
from parley.core.bus_errors import BusError
from tests.conformance.bus_store.makers import (
    HOUR_MS,
    NOW,
    admit,
    certificate,
    digest,
    item,
    known,
    nonce,
    open_store,
    peer,
)

BOUNDS = StoreBounds(Bounds(items=4, bytes=24, items_per_peer=3), Bounds(items=5, bytes=30, items_per_peer=4))
PEERS = st.integers(1, 3)
NUMBERS = st.integers(1, 9)
IDS = st.integers(0, 12)
SEQUENCES = st.one_of(st.integers(0, 12), st.sampled_from([2**32, 2**63 - 1, 2**63]))
PAYLOADS = st.sampled_from([b"", b"one", b"\0two\xff", b"longer than most"])
LIMITS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=2, unique_by=lambda pair: pair[0])
STEPS_MS = st.sampled_from([0, 1, 10, 1_000, HOUR_MS, 24 * HOUR_MS, 9 * 24 * HOUR_MS, -1, -HOUR_MS, -30 * 24 * HOUR_MS])
TEXTS = st.text(max_size=20)
SMALL = {
    "parley.bus.memory_store.BUS_NONCES_KEPT": 6,
    "parley.bus.inbox_rows.BUS_NONCES_KEPT": 6,
    "parley.bus.memory_store.BUS_EXPIRED_KEPT": 3,
    "parley.bus.outbox_rows.BUS_EXPIRED_KEPT": 3,
    "parley.bus.memory_store.BUS_PEERS_KEPT": 3,
    "parley.bus.peer_rows.BUS_PEERS_KEPT": 3,
}
"""So that what is bounded comes to its bounds."""


class TwoStores(RuleBasedStateMachine):
    """Whatever is asked of one is asked of the other."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory()
        self._limits = [patch(name, value) for name, value in SMALL.items()]
        for each in self._limits:
            each.start()
        self._now = NOW
        self._drawn = 0

    @initialize()
    def open(self) -> None:
        self._memory: MeshStore = MemoryMeshStore(BOUNDS)
        self._sqlite = self._opened()

    def teardown(self) -> None:
        self._runner.run(self._sqlite.close())
        self._runner.close()
        self._folder.cleanup()
        for each in self._limits:
            each.stop()

    @rule()
    def reopen(self) -> None:
        self._runner.run(self._sqlite.close())
        self._sqlite = self._opened()

    @rule(step=STEPS_MS)
    def time_passes(self, step: int) -> None:
        self._now += step

    @rule(
        of=PEERS,
        by=st.integers(1, 20),
        sequence=SEQUENCES,
        number=NUMBERS,
        payload=PAYLOADS,
        limits=LIMITS,
        dispatching=st.booleans(),
    )
    def admit(
        self,
        of: int,
        by: int,
        sequence: int,
        number: int,
        payload: bytes,
        limits: list[tuple[int, int]],
        dispatching: bool,
    ) -> None:
        call_limits = [CallLimit(certificate(which), most) for which, most in limits]
        self._same(
            lambda store: admit(
                store,
                sequence,
                of=of,
                by=by,
                number=number,
                payload=payload,
                call_limits=call_limits,
                dispatching=dispatching,
                now=self._now,
            )
        )

    @rule(of=PEERS, number=NUMBERS, by=st.integers(21, 40))
    def admit_the_next(self, of: int, number: int, by: int) -> None:
        known = self._same(lambda store: store.last_seq(peer(of)))
        sequence = (known if isinstance(known, int) else 0) + 1
        self._same(lambda store: admit(store, sequence, of=of, by=by, number=number, now=self._now))

    @rule(number=IDS)
    def start_dispatch(self, number: int) -> None:
        self._same(lambda store: store.start_dispatch(number))

    @rule(number=IDS)
    def dispatched(self, number: int) -> None:
        self._same(lambda store: store.dispatched(number))

    @rule(number=IDS)
    def unwedge_undispatched(self, number: int) -> None:
        self._same(lambda store: store.unwedge_undispatched(number))

    @rule(to=PEERS, number=NUMBERS, payload=PAYLOADS, lives_ms=st.integers(-1, 50), waits_ms=st.integers(0, 30))
    def enqueue(self, to: int, number: int, payload: bytes, lives_ms: int, waits_ms: int) -> None:
        new = item(number, to=to, payload=payload)._replace(
            digest=digest(payload), expires_at=self._now + lives_ms, not_before=self._now + waits_ms
        )
        self._same(lambda store: store.enqueue_outbox(new, now=self._now))

    @rule(to=PEERS, number=NUMBERS)
    def enqueue_for_long(self, to: int, number: int) -> None:
        new = item(number, to=to)._replace(expires_at=self._now + 24 * HOUR_MS)
        self._same(lambda store: store.enqueue_outbox(new, now=self._now))

    @rule(limit=st.integers(0, 4), to=st.none() | PEERS)
    def due(self, limit: int, to: int | None) -> None:
        whom = None if to is None else peer(to)
        self._same(lambda store: store.due_outbox(now=self._now, limit=limit, peer=whom))

    @rule()
    def next_due_at(self) -> None:
        self._same(lambda store: store.next_due_at(now=self._now))

    @rule(number=IDS)
    def remove(self, number: int) -> None:
        self._same(lambda store: store.remove_outbox(number))

    @rule(number=IDS, waits_ms=st.sampled_from([0, 5, 100, HOUR_MS]), error=TEXTS)
    def reschedule(self, number: int, waits_ms: int, error: str) -> None:
        until = self._now + waits_ms
        self._same(lambda store: store.reschedule_outbox(number, now=self._now, not_before=until, error=error))

    @rule(to=PEERS)
    def hasten(self, to: int) -> None:
        self._same(lambda store: store.hasten_outbox(peer(to), now=self._now))

    @rule(number=IDS, reason=TEXTS)
    def wedge(self, number: int, reason: str) -> None:
        self._same(lambda store: store.wedge_outbox(number, reason=reason))

    @rule(number=IDS)
    def unwedge(self, number: int) -> None:
        self._same(lambda store: store.unwedge_outbox(number, now=self._now))

    @rule()
    def expire(self) -> None:
        self._same(lambda store: store.expire_outbox(now=self._now))

    @rule(number=st.integers(1, 6), topics=st.sets(st.sampled_from(["alerts", "build", "größe"])))
    def meet(self, number: int, topics: set[str]) -> None:
        self._same(lambda store: store.remember_peer(known(number, self._now, *sorted(topics))))

    @rule(jump=st.integers(0, 3_000))
    def draw_sequences(self, jump: int) -> None:
        """The counters differ, since one was restarted. Both only rise."""
        for store in (self._memory, self._sqlite):
            drawn = self._runner.run(store.next_out_seq())
            assert self._runner.run(store.raise_out_seq(drawn + 1 + jump)) is (jump > 0)
            after = self._runner.run(store.next_out_seq())
            assert after == drawn + 1 + jump
        assert after > self._drawn
        self._drawn = after

    @invariant()
    def both_hold_the_same(self) -> None:
        self._same(lambda store: store.undispatched(limit=100))
        self._same(lambda store: store.list_outbox(limit=100))
        self._same(lambda store: store.expired_outbox(limit=100))
        self._same(lambda store: store.known_peers(since=0))

    @rule(by=st.integers(1, 40), of=PEERS)
    def look(self, by: int, of: int) -> None:
        self._same(lambda store: store.nonce_seen(nonce(by)))
        self._same(lambda store: store.last_seq(peer(of)))

    def _opened(self) -> SqliteMeshStore:
        async def opened() -> SqliteMeshStore:
            return open_store(Path(self._folder.name) / "bus.db", bounds=BOUNDS)

        return self._runner.run(opened())

    def _same(self, call: Callable[[MeshStore], Awaitable[object]]) -> object:
        async def answer(store: MeshStore) -> object:
            try:
                return await call(store)
            except BusError as error:
                return type(error), error.message, error.details

        in_memory, in_file = (self._runner.run(answer(store)) for store in (self._memory, self._sqlite))
        assert in_memory == in_file
        return in_memory


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


class ForgetfulStore(MemoryMeshStore):
    """Acknowledges a removal, and keeps the message."""

    async def remove_outbox(self, outbox_id: int) -> bool:
        return any(each.id == outbox_id for each in await self.list_outbox(limit=100))


class WithAForgetfulStore(TwoStores):
    @initialize()
    def open(self) -> None:
        self._memory = ForgetfulStore(BOUNDS)
        self._sqlite = self._opened()


def test_control_a_store_that_answers_otherwise_is_found() -> None:
    unshrunk = settings(TestTwoStores.settings, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(WithAForgetfulStore, settings=unshrunk)


def test_the_machine_asks_for_everything_that_the_protocol_has() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    methods = {name for name, member in vars(MeshStore).items() if callable(member) and not name.startswith("_")}
    assert [name for name in sorted(methods - {"admit"}) if f".{name}(" not in source] == []
