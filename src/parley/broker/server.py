"""The shell around the sessions: their connections, a loop, a clock, and the gate to the store. It decides nothing."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from parley.broker.fanout import Fanout
from parley.broker.gate import Gate
from parley.broker.line import Line
from parley.broker.peer_changes import PeerChanges
from parley.broker.policy import Policy
from parley.broker.rules.ephemeral import EndGoneMember
from parley.broker.rules.presence import seen
from parley.broker.rules.retention import sweep, sweep_leases
from parley.broker.session import Ask, Effect, Expel, Joined, Kick, Setting, Tell, Wake
from parley.broker.signals import Signal
from parley.broker.tx import Rule
from parley.core.clock import Clock
from parley.core.errors import ParleyError
from parley.serve.metrics import Metrics
from parley.sqlite import Outcome
from parley.wire.broker import Notice

CONNECTIONS_MAX: Final = 10_000
"""Connections of one process, greeted or not; one more is refused."""
TICK_SECONDS: Final = 1.0
LEASES_SECONDS: Final = 5.0
RETENTION_SECONDS: Final = 60.0
SWEEP_MESSAGES: Final = 500


class Broker:
    """All connections of this process. Its methods belong to the loop's thread."""

    def __init__(self, setting: Setting, gate: Gate, clock: Clock, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self.setting = setting
        self.gate = gate
        self.metrics = metrics
        self.stopping = False
        self._clock = clock
        self.log = log
        self._loop = asyncio.get_running_loop()
        self._fanout = Fanout()
        self._changes = PeerChanges()
        self._lines: dict[str, Line] = {}
        self._under_way: set[asyncio.Future[Any]] = set()
        self._idle = asyncio.Event()
        self.on_outdated: Callable[[], None] = lambda: None
        """Called when another store has taken the place of the one that is served."""

    @property
    def connections(self) -> int:
        """How many daemons are connected here."""
        return len(self._lines)

    @property
    def policy(self) -> Policy:
        return self.setting.policy

    @property
    def now(self) -> int:
        """Milliseconds that never go back."""
        return round(self._clock.monotonic() * 1000)

    def opened(self, line: Line) -> None:
        """A connection was let in."""
        self._lines[line.session.connection_id] = line
        self.metrics.inc("parley_broker_connections_total")
        self._count_connections()

    def ended(self, line: Line) -> None:
        """A connection is over, whoever ended it."""
        session = line.session
        mesh_id, member_id = session.mesh_id, session.member_id
        self._fanout.remove(session.connection_id)
        if member_id and not self._fanout.of_members([member_id]):
            self._changes.connected(mesh_id, member_id, False)
        del self._lines[session.connection_id]
        self._count_connections()
        if line.close_code is not None:
            self.metrics.inc("parley_broker_closed_total", 1, str(line.close_code))
        line.perform(session.on_closed())
        self._look_whether_idle()

    async def stop(self) -> None:
        """Tells every daemon to come back later, and finishes what they have asked for."""
        self.stopping = True
        for line in list(self._lines.values()):
            line.perform(line.session.on_stopping())
        self._look_whether_idle()
        await self._idle.wait()

    async def run_timers(self) -> None:
        """Until it is cancelled: the sessions' sense of time, leases that are over, and what is too old."""
        ticks, seen_at = 0, self.now
        while True:
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1
            now = self.now
            for mesh_id, notice in self._changes.take():
                self._tell_now(mesh_id, notice)
            for line in list(self._lines.values()):
                line.perform(line.session.on_timer(now))
            if now - seen_at >= self.policy.seen_ms:
                connected, seen_at = self._fanout.connections(), now
                await self._quietly(lambda tx, each=connected: seen(tx, each))
            if ticks % round(LEASES_SECONDS / TICK_SECONDS) == 0:
                self._wake(await self._quietly(lambda tx: sweep_leases(tx, self.policy)) or ())
            if ticks % round(RETENTION_SECONDS / TICK_SECONDS) == 0:
                await self._sweep()

    def on_signal(self, signal: Signal) -> None:
        """What another broker on the same database did."""
        if signal.restored:
            self.log.error("store_was_restored", hint="start the broker again")
            self.on_outdated()
        self._wake(signal.wake)
        self._expel(signal.expel)
        self._kick(signal.kick)
        for connection_id in signal.replaced:
            self._replace(connection_id)
        for told in signal.told:
            self.tell(told.mesh_id, told.notice)

    def tell(self, mesh_id: str, notice: Notice) -> None:
        """A notice for everybody of a mesh who is connected here; of peers they hear once in a second."""
        if not self._changes.take_in(mesh_id, notice):
            self._tell_now(mesh_id, notice)

    def _tell_now(self, mesh_id: str, notice: Notice) -> None:
        for connection_id in self._fanout.of_mesh(mesh_id):
            line = self._lines[connection_id]
            line.perform(line.session.on_notice(notice))

    def ask(self, line: Line, ask: Ask) -> None:
        """Runs a session's rule, and brings it the outcome."""
        try:
            future = self.gate.run(ask.rule)
        except ParleyError as error:
            refused: Outcome[Any] = Outcome(error=error)
            self._loop.call_soon(lambda: line.perform(line.session.on_result(ask.token, refused, self.now)))
            return
        self._under_way.add(future)
        future.add_done_callback(lambda done: self._answered(line, ask.token, done))

    def carry_out(self, line: Line, effect: Effect) -> None:
        """What a session wants of others."""
        match effect:
            case Joined(mesh_id, member_id, replaced):
                self._fanout.add(line.session.connection_id, mesh_id, member_id)
                self.log.info("connected", connection=line.session.connection_id, member=member_id)
                for connection_id in replaced:
                    self._replace(connection_id)
            case Wake(member_ids):
                self._wake(member_ids)
            case Expel(member_ids):
                self._expel(member_ids)
            case Kick(member_ids):
                self._kick(member_ids)
            case Tell(mesh_id, notice):
                self.tell(mesh_id, notice)
            case _:
                raise TypeError(effect)

    def _answered(self, line: Line, token: int, future: "asyncio.Future[Any]") -> None:
        self._under_way.discard(future)
        error = future.exception()
        if error is not None and not isinstance(error, ParleyError):
            self.log.error("rule_failed", exc_info=error)
        outcome: Outcome[Any] = (
            Outcome(future.result())
            if error is None
            else Outcome(error=error if isinstance(error, Exception) else None)
        )
        line.perform(line.session.on_result(token, outcome, self.now))
        self._look_whether_idle()

    def _look_whether_idle(self) -> None:
        """Whether all is done that a stop waits for."""
        if self.stopping and not self._lines and not self._under_way:
            self._idle.set()

    def _wake(self, member_ids: tuple[str, ...]) -> None:
        for connection_id in self._fanout.of_members(member_ids):
            line = self._lines[connection_id]
            line.perform(line.session.on_woken(self.now))

    def _expel(self, member_ids: tuple[str, ...]) -> None:
        for connection_id in self._fanout.of_members(member_ids):
            line = self._lines[connection_id]
            line.perform(line.session.on_expelled())

    def _kick(self, member_ids: tuple[str, ...]) -> None:
        for connection_id in self._fanout.of_members(member_ids):
            line = self._lines[connection_id]
            line.perform(line.session.on_kicked())

    def _replace(self, connection_id: str) -> None:
        line = self._lines.get(connection_id)
        if line is not None:
            line.perform(line.session.on_replaced())

    def _count_connections(self) -> None:
        self.metrics.set("parley_broker_connections", len(self._lines))

    async def _sweep(self) -> None:
        while (gone := await self._quietly(EndGoneMember(self.policy.ephemeral_ms))) is not None:
            self._expel(gone.ended)
            for notice in gone.notices:
                self.tell(gone.mesh_id, notice)
        while swept := await self._quietly(lambda tx: sweep(tx, self.policy, SWEEP_MESSAGES)):
            self.metrics.inc("parley_broker_swept_total", swept.messages)
            self._wake(swept.woken)
            if swept.messages < SWEEP_MESSAGES:
                break
        depth = await self._quietly(
            lambda tx: tx.one("SELECT count(*) FROM delivery_queue WHERE state IN ('queued', 'leased')")
        )
        if depth is not None:
            self.metrics.set("parley_broker_deliveries_waiting", depth[0])

    async def _quietly(self, rule: Rule[Any]) -> Any:
        """The rule's value, or None when it failed; it is tried again soon by itself."""
        try:
            return await self.gate.run(rule)
        except ParleyError as error:
            self.log.warning("housekeeping_failed", code=error.code, problem=str(error))
            return None
        except Exception as error:  # the timers of all connections go on
            self.log.error("housekeeping_failed", exc_info=error)
            return None
