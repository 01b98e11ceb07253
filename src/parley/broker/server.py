"""The shell around the sessions: sockets, a loop, a clock, and the gate to the store. It decides nothing.

A connection has two halves. What the daemon says is decoded and given to its session; what the session replies is put
into a queue of its own, which a task empties into the socket, so that a slow daemon holds nobody up. One that takes
nothing while much is said is closed: its deliveries are on disk, and it finds them when it comes back. Since it may
not even take that it is closed, it is left alone after a while, whatever was still to be said.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from parley.broker.fanout import Fanout
from parley.broker.gate import Gate
from parley.broker.peer_changes import PeerChanges
from parley.broker.policy import Policy
from parley.broker.rules.ephemeral import EndGoneMember
from parley.broker.rules.presence import seen
from parley.broker.rules.retention import sweep, sweep_leases
from parley.broker.session import Ask, Close, Effect, Expel, Joined, Kick, Reply, Session, Setting, Tell, Wake
from parley.broker.signals import Signal
from parley.broker.tx import Rule
from parley.core.clock import Clock
from parley.core.errors import ParleyError
from parley.core.ids import new_uuid
from parley.serve.metrics import Metrics
from parley.sqlite import Outcome
from parley.wire.broker import (
    NONCE_BYTES,
    Accepted,
    DeliveryAck,
    FromBroker,
    Notice,
    Push,
    RefusedSend,
    decode_from_daemon,
    encode_frame,
)

FRAME_BYTES_MAX: Final = 256 * 1024
"""Room for the largest body in base64, and what is around it."""
CLOSE_SECONDS: Final = 5.0
"""How long a daemon may take to hear that its connection is closed."""
CONNECTIONS_MAX: Final = 10_000
"""Connections of one process, greeted or not; one more is refused."""
TICK_SECONDS: Final = 1.0
LEASES_SECONDS: Final = 5.0
RETENTION_SECONDS: Final = 60.0
SWEEP_MESSAGES: Final = 500
_TOO_SLOW: Final = 1008
_POLICY_VIOLATION: Final = 1008


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

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One WebSocket, from its upgrade to its end."""
        await receive()  # the request to connect
        if self.stopping:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await send({"type": "websocket.accept"})
        session = Session(self.setting, new_uuid(), secrets.token_hex(NONCE_BYTES), self.now)
        line = Line(self, session)
        self._lines[session.connection_id] = line
        self.metrics.inc("parley_broker_connections_total")
        self._count_connections()
        sending = asyncio.create_task(line.send_all(send))
        hearing = asyncio.create_task(line.hear_all(receive))
        line.give_up = hearing.cancel
        line.perform(session.open())
        try:
            await asyncio.wait({sending, hearing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end(line, sending, hearing)

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

    def ask(self, line: "Line", ask: Ask) -> None:
        """Runs a session's rule, and brings it the outcome."""
        try:
            future = self.gate.run(ask.rule)
        except ParleyError as error:
            refused: Outcome[Any] = Outcome(error=error)
            self._loop.call_soon(lambda: line.perform(line.session.on_result(ask.token, refused, self.now)))
            return
        self._under_way.add(future)
        future.add_done_callback(lambda done: self._answered(line, ask.token, done))

    def carry_out(self, line: "Line", effect: Effect) -> None:
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

    def _answered(self, line: "Line", token: int, future: "asyncio.Future[Any]") -> None:
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

    async def _end(self, line: "Line", *tasks: "asyncio.Task[None]") -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session = line.session
        line.forget()
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


class Line:
    """One connection: its session, and what waits to be sent on it."""

    def __init__(self, broker: Broker, session: Session) -> None:
        self.session = session
        self.close_code: int | None = None
        self.give_up: Callable[[], Any] = lambda: None
        """Ends the connection without another word."""
        self._broker = broker
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._ending: Close | None = None
        self._patience: asyncio.TimerHandle | None = None

    def perform(self, effects: list[Effect]) -> None:
        """Carries out what the session wants."""
        for effect in effects:
            match effect:
                case Reply(frame):
                    self._put(frame)
                case Close():
                    self._end(effect)
                case Ask():
                    self._broker.ask(self, effect)
                case _:
                    self._broker.carry_out(self, effect)

    async def send_all(self, send: Send) -> None:
        """Empties the queue into the socket until the connection is to be closed."""
        while True:
            while self._frames:
                data = self._frames.popleft()
                self._bytes -= len(data)
                await send({"type": "websocket.send", "text": data.decode()})
            if self._ending is not None:
                reason = self._ending.reason
                await send({"type": "websocket.close", "code": self._ending.code, "reason": reason})
                return
            self._changed.clear()
            await self._changed.wait()

    async def hear_all(self, receive: Receive) -> None:
        """Gives the session what the daemon says until it says no more."""
        while (message := await receive())["type"] == "websocket.receive":
            self._hear(message)

    def _hear(self, message: Message) -> None:
        broker = self._broker
        try:
            frame = decode_from_daemon(message.get("text") or message.get("bytes") or b"")
        except ParleyError as error:
            self.perform(self.session.on_unreadable(error, broker.now))
            return
        if isinstance(frame, DeliveryAck):
            broker.metrics.inc("parley_broker_acknowledged_total", len(frame.deliveries))
        self.perform(self.session.on_frame(frame, broker.now))

    def _put(self, frame: FromBroker) -> None:
        if self._ending is not None:
            return
        metrics = self._broker.metrics
        match frame:
            case Push():
                metrics.inc("parley_broker_pushed_total")
            case Accepted():
                metrics.inc("parley_broker_accepted_total", 1, str(frame.status))
            case RefusedSend():
                metrics.inc("parley_broker_refused_total", 1, frame.problem.code)
            case _:
                pass
        data = encode_frame(frame)
        self._frames.append(data)
        self._bytes += len(data)
        policy = self._broker.policy
        if len(self._frames) > policy.queue_frames_max or self._bytes > policy.queue_bytes_max:
            self.forget()
            self._end(Close(_TOO_SLOW, "SLOW"))
        self._changed.set()

    def forget(self) -> None:
        """Drops what was to be sent."""
        self._frames.clear()
        self._bytes = 0
        if self._patience is not None:
            self._patience.cancel()

    def _end(self, close: Close) -> None:
        if self._ending is None:
            self._ending, self.close_code = close, close.code
            self._patience = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.give_up)
        self._changed.set()
