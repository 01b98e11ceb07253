"""The shell around a mesh's machine: a WebSocket, the two databases, and one timer.

Everything here happens on the event loop's thread. The machine is told of each thing that happens and its effects are
carried out in order; what takes time goes on in tasks, whose results are told to the machine in their turn.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import apsw
from structlog.typing import FilteringBoundLogger

from parley.core.backoff import Jitter
from parley.core.clock import Clock
from parley.core.errors import LocalError, ParleyError
from parley.core.wire_errors import retold
from parley.daemon.connection import Connection
from parley.daemon.effects import (
    Agree,
    Connect,
    Disconnect,
    Effect,
    End,
    Heed,
    Reply,
    Settle,
    Store,
    Take,
    Tell,
    Transmit,
)
from parley.daemon.inbox.events import DaemonEvent, append_event
from parley.daemon.inbox.receive import Opener, Received, receive
from parley.daemon.instant import Instant
from parley.daemon.link import LinkSettings, Member
from parley.daemon.mesh_loop import MeshLoop
from parley.daemon.outbox.accept import Taken
from parley.daemon.outbox.sending import Due, Seal, Settlement, settle, take_due
from parley.daemon.outbox.terms import read_terms, write_terms
from parley.daemon.store import IN, DaemonStore
from parley.daemon.tally import MeshTally, Tally
from parley.sqlite import Outcome, Write
from parley.wire.broker import (
    DeliveryAcked,
    Notice,
    Problem,
    Push,
    decode_from_broker,
    encode_frame,
)

T = TypeVar("T")
AGAIN_SECONDS: Final = 1.0
"""How long to wait before a write is tried again that the disk refused."""


class MeshRunner:
    """One mesh of a daemon, from ``start`` to ``stop``."""

    def __init__(
        self,
        member: Member,
        url: str,
        settings: LinkSettings,
        *,
        store: DaemonStore,
        clock: Clock,
        jitter: Jitter,
        log: FilteringBoundLogger,
        tally: Tally,
        open_sealed: Opener,
        seal: Seal | None = None,
        on_told: Callable[[Sequence[Received]], None] = lambda received: None,
        on_events: Callable[[Sequence[DaemonEvent]], None],
        on_notice: Callable[[Notice], None],
        on_ready: Callable[[], None],
        on_end: Callable[[LocalError], None],
    ) -> None:
        self.member = member
        self.url = url
        self.ended: LocalError | None = None
        self.tried = asyncio.Event()
        """Set once it is known how the first try to connect went."""
        self.terms = store.read_outbox(lambda db: read_terms(db, member.mesh_id))
        self.machine = MeshLoop(member, settings, jitter)
        self._store = store
        self._clock = clock
        self._log = log
        self._tally = MeshTally(tally, member.mesh_slug, log)
        self._open_sealed = open_sealed
        self._seal = seal
        self._on_told = on_told
        self._on_events = on_events
        self._on_notice = on_notice
        self._on_ready = on_ready
        self._on_end = on_end
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Future[Any]] = set()
        self._settlements = _Gathered(self._loop, self._settle)
        self._pushes = _Gathered(self._loop, self._store_pushes)
        self._told = _Gathered(self._loop, self._tell)

    @property
    def status(self) -> str:
        """``open``, ``connecting``, ``reconnecting`` or ``closed``."""
        state = self.machine.link.state
        if state == "ready":
            return "open"
        if state in ("idle", "ended"):
            return "closed"
        return "connecting" if self.machine.link.failures == 0 else "reconnecting"

    def start(self) -> None:
        """Begins to connect."""
        self._step(self.machine.start(self._now()))

    def wake(self) -> None:
        """A new row is in the outbox."""
        self._step(self.machine.wake(self._now()))

    def post(self, submit: Callable[[bool], "asyncio.Future[Taken]"]) -> "asyncio.Future[Taken]":
        """Has a row written by ``submit``, which is told whether it is to be in flight from the start, and sends it.

        To take it from the outbox is to write, too: then both are one commit. Nobody may cancel the future.
        """
        in_flight = self.machine.admit(self._now())
        try:
            future = submit(in_flight)
        except ParleyError:
            if in_flight:
                self._step(self.machine.on_admitted(None, self._now()))
            raise
        if in_flight:
            self._under_way.add(future)
            future.add_done_callback(self._posted)
        else:
            self.wake()
        return future

    def _posted(self, future: "asyncio.Future[Taken]") -> None:
        self._under_way.discard(future)
        taken = None if future.exception() else future.result()
        row = taken.row if taken is not None and taken.is_new else None
        if row is not None and row.status != "inflight":
            self._step(self.machine.on_admitted(None, self._now()))
            self.wake()  # it could not be sealed yet
            return
        self._step(self.machine.on_admitted(row, self._now()))

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a method of the broker. Raises the error that its problem stands for."""
        token, effects = self.machine.ask(method, params or {}, self._now())
        future = self._asked[token] = self._loop.create_future()
        self._step(effects)
        return await future

    async def stop(self) -> None:
        """Closes the connection and waits for what is under way."""
        self._step(self.machine.stop(self._now()))
        if self._timer is not None:
            self._timer.cancel()
        while self._under_way or self._settlements or self._pushes or self._told:
            await asyncio.gather(*self._under_way, return_exceptions=True)
            await asyncio.sleep(0)  # what came meanwhile is used at the end of its turn

    def _now(self) -> Instant:
        return Instant(self._clock.now_ms(), self._clock.monotonic())

    def _step(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._do(effect)
        self._set_timer()

    def _set_timer(self) -> None:
        """A timer that is early is left as it is: deadlines move with every frame, mostly away."""
        deadline = self.machine.deadline
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        delay = max(0.0, deadline - self._clock.monotonic())
        self._timer = self._loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._step(self.machine.on_timer(self._now()))

    def _do(self, effect: Effect) -> None:
        match effect:
            case Connect():
                self._connection = Connection(self)
            case Transmit():
                if self._connection is not None:
                    self._connection.send(encode_frame(effect.frame))
            case Disconnect():
                self._leave(effect)
            case Take():
                self._take(effect.limit)
            case Settle():
                self._settlements.add(effect.settlements)
            case Store():
                self._pushes.add(effect.pushes)
            case Agree():
                self.terms = effect.terms
                self._tell_of_ignored()
                self._spawn(self._agree(effect))
            case Reply():
                self._answer(effect)
            case Tell():
                if effect.kind == "broker_status":
                    self.tried.set()
                self._tally.told(effect)
                self._told.add((effect,))
            case Heed():
                self._on_notice(effect.notice)
            case End():
                self.ended = effect.error
                self._log.error("mesh_ended", mesh=self.member.mesh_slug, code=effect.error.code, why=str(effect.error))
                self._on_end(effect.error)

    def _leave(self, effect: Disconnect) -> None:
        """From now on the connection says nothing to us; it still sends what was queued."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave(effect.code, effect.reason)
            self._spawn(connection.closed())

    def _take(self, limit: int) -> None:
        mesh_id, now_ms, max_age = self.member.mesh_id, self._clock.now_ms(), self.terms.max_age_ms

        def taken(outcome: Outcome[Due]) -> None:
            due = outcome.value
            if due is None:
                self._log.warning("outbox_not_read", mesh=self.member.mesh_slug, code=_code(outcome.error))
                due = Due([], now_ms + round(AGAIN_SECONDS * 1000), [])
            self._step(self.machine.on_taken(due, self._now()))

        seal = self._seal
        rule = partial(take_due, mesh_id=mesh_id, now_ms=now_ms, limit=limit, max_age_ms=max_age, seal=seal)
        self._write(self._store.write_outbox, rule, taken)

    def _settle(self, settlements: Sequence[Settlement]) -> None:
        def write(db: apsw.Connection) -> bool:
            for settlement in settlements:
                settle(db, settlement, now_ms=self._clock.now_ms())
            return True

        def written(outcome: Outcome[bool]) -> None:
            error = outcome.error
            if error is None:
                return
            self._log.warning("outbox_not_written", mesh=self.member.mesh_slug, code=_code(error))
            # Otherwise the row is in flight at the next start, and is sent and recognised again.
            if isinstance(error, ParleyError) and error.transient and self._store.outbox.state == "open":
                self._spawn(self._settle_again(settlements))

        self._write(self._store.write_outbox_later, write, written)

    async def _settle_again(self, settlements: Sequence[Settlement]) -> None:
        """Until it is written: what the broker said is not heard a second time."""
        await asyncio.sleep(AGAIN_SECONDS)
        self._settle(settlements)

    def _store_pushes(self, pushes: Sequence[Push]) -> None:
        """Each in a rule of its own, so that one that cannot be stored keeps no other out."""
        outcomes: list[Outcome[Received]] = []

        def written(outcome: Outcome[Received]) -> None:
            outcomes.append(outcome)
            if len(outcomes) == len(pushes):
                self._stored(outcomes)

        for push in pushes:
            row_id, member, now_ms = self._store.new_id(IN), self.member, self._clock.now_ms()
            ids = {"mesh_id": member.mesh_id, "recipient_id": member.member_id, "row_id": row_id}
            most = self.machine.link.settings.inbox_bytes_max
            rule = partial(receive, push=push, open_sealed=self._open_sealed, **ids, now_ms=now_ms, bytes_max=most)
            self._write(self._store.write_inbox, rule, written)

    def _stored(self, outcomes: Sequence[Outcome[Received]]) -> None:
        stored = [each.value for each in outcomes if each.value is not None]
        errors = [each.error for each in outcomes if each.error is not None]
        if errors:
            self._tell_of_refused(errors)
        for each in stored:
            self._tally.received(each)
        if stored:
            self._on_events([each.event for each in stored if each.event is not None])
            self._on_told(stored)
            acks = [DeliveryAcked(each.delivery_id, each.status) for each in stored]
            self._step(self.machine.on_stored(acks, self._now()))

    def _tell_of_refused(self, errors: Sequence[Exception]) -> None:
        """Of deliveries that were not stored: they are not acknowledged, and come again."""
        refused = Counter(error.code for error in errors if isinstance(error, ParleyError))
        for code, number in refused.items():
            self._log.warning("deliveries_not_stored", mesh=self.member.mesh_slug, code=code, deliveries=number)
        for error in errors:
            if not isinstance(error, ParleyError):
                self._log.error("deliveries_not_stored", mesh=self.member.mesh_slug, exc_info=error)

    def _tell_of_ignored(self) -> None:
        judged = self.machine.link.judged
        if judged is not None and judged.ignored:
            ignored = list(judged.ignored)
            self._log.warning("feature_optional_param_invalid", mesh=self.member.mesh_slug, features=ignored)

    async def _agree(self, agreed: Agree) -> None:
        mesh_id, now_ms = self.member.mesh_id, self._clock.now_ms()
        try:
            await self._store.write_outbox(lambda db: write_terms(db, mesh_id, agreed.terms, now_ms=now_ms))
        except ParleyError as error:
            self._log.warning("terms_not_written", mesh=self.member.mesh_slug, code=error.code)
        self._on_ready()

    def _tell(self, told: Sequence[Tell]) -> None:
        mesh_id, now_ms = self.member.mesh_id, self._clock.now_ms()

        def write(db: apsw.Connection) -> list[DaemonEvent]:
            return [append_event(db, each.kind, each.data, now_ms=now_ms, mesh_id=mesh_id) for each in told]

        def written(outcome: Outcome[list[DaemonEvent]]) -> None:
            if outcome.value is None:
                kinds = sorted({each.kind for each in told})
                self._log.warning("event_not_written", kind=", ".join(kinds), code=_code(outcome.error))
            else:
                self._on_events(outcome.value)

        self._write(self._store.write_inbox_later, write, written)

    def _answer(self, reply: Reply) -> None:
        future = self._asked.pop(reply.token, None)
        if future is None:
            # Answered before anybody could wait for it: ``ask`` puts the future there and steps after.
            return
        if future.done():
            return
        if reply.problem is None:
            future.set_result(reply.result)
        else:
            future.set_exception(problem_error(reply.problem))

    def _write(
        self,
        submit: Callable[[Write[T]], "asyncio.Future[T]"],
        rule: Write[T],
        then: Callable[[Outcome[T]], None],
    ) -> None:
        """Has a rule run in a database, and tells what came of it: later, also when it is refused at once."""
        try:
            future = submit(rule)
        except ParleyError as error:
            future = self._loop.create_future()
            future.set_exception(error)
        self._under_way.add(future)

        def done(future: "asyncio.Future[T]") -> None:
            self._under_way.discard(future)
            error = None if future.cancelled() else future.exception()
            if isinstance(error, Exception):
                then(Outcome(error=error))
            elif not future.cancelled():
                then(Outcome(future.result()))

        future.add_done_callback(done)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.error("mesh_task_failed", mesh=self.member.mesh_slug, exc_info=task.exception())

    # What the connection tells; one that was left tells nothing any more.

    def heard(self, connection: Connection, data: bytes | str) -> None:
        """A frame came."""
        if connection is not self._connection:
            return
        try:
            frame = decode_from_broker(data)
        except ParleyError as error:
            self._tally.not_understood(str(error))
            return
        self._step(self.machine.on_frame(frame, self._now()))

    def opened(self, connection: Connection) -> None:
        """The socket is open."""
        if connection is self._connection:
            self._step(self.machine.on_connected(self._now()))

    def lost(self, connection: Connection, code: int | None, reason: str) -> None:
        """The socket is closed, or could not be opened."""
        if connection is self._connection:
            self._connection = None
            self._step(self.machine.on_closed(code, reason, self._now()))


class _Gathered(Generic[T]):
    """What comes in one turn of the loop, to be used together when it is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, use: Callable[[list[T]], None]) -> None:
        self._loop = loop
        self._use = use
        self._items: list[T] = []

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, items: Iterable[T]) -> None:
        if not self._items:
            self._loop.call_soon(self._use_all)
        self._items += items

    def _use_all(self) -> None:
        items, self._items = self._items, []
        self._use(items)


def _code(error: Exception | None) -> str:
    return error.code if isinstance(error, ParleyError) else type(error).__name__


def problem_error(problem: Problem) -> ParleyError:
    """The error that a broker's problem stands for, of the class that its code names."""
    return retold(problem.error, code=problem.code, status=problem.status, details=problem.details)
