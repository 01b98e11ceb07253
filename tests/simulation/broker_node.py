"""Simulated brokers: the product's store, sessions and fan-outs on a simulated disk and network.

One database may have several brokers in front of it, which are equals: a connection comes to any of them, and what one
commits the others hear of by a signal, which may get lost. A broker of several can die alone, and leaves its leases and
its connections behind.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from parley.broker.calls import AcceptMessage
from parley.broker.fanout import Fanout
from parley.broker.policy import Policy
from parley.broker.rules.presence import forget_all_connections, seen, set_presence
from parley.broker.rules.retention import sweep, sweep_leases
from parley.broker.session import Ask, Close, Effect, Expel, Joined, Kick, Reply, Session, Setting, Tell, Wake
from parley.broker.signals import Signal, Told, signals
from parley.broker.sqlite_store import SqliteStore, open_sqlite_store
from parley.broker.tx import Rule, Tx
from parley.core import sealing
from parley.core.errors import ParleyError
from parley.sqlite import Outcome
from parley.wire.broker import Accepted, decode_from_daemon, encode_frame
from tests.simulation.network import Listener, Network, Wire
from tests.simulation.node import Node, SimulatedWriter
from tests.simulation.scheduler import Scheduler

TICK_MS = 1_000
SWEEP_MESSAGES = 50
SIGNAL_MS = 20
SIGNAL_LOSS = 0.1


class BrokerRules:
    """How a broker runs the rules that its sessions ask for; a world with a planted bug has another."""

    def __init__(self, node: "BrokerNode") -> None:
        self.node = node

    def run(self, rule: Rule[Any], done: Callable[[Outcome[Any]], None]) -> None:
        """Has the rule committed and its outcome told."""
        self.node.submit(rule, done)


@dataclass
class _Connection:
    session: Session
    wire: Wire


@dataclass
class Front:
    """One broker process in front of the database: what it has in memory."""

    instance: str
    connections: dict[str, _Connection] = field(default_factory=dict)
    fanout: Fanout = field(default_factory=Fanout)
    is_up: bool = True


class BrokerNode(Node):
    """The brokers of all meshes, and their database."""

    store: SqliteStore

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        network: Network,
        folder: Path,
        policy: Policy,
        rules: type[BrokerRules],
        fronts: int = 1,
    ) -> None:
        super().__init__(name, scheduler, network, folder)
        self.accepted = 0
        self._policy = policy
        self._rules = rules(self)
        self._numbers = 0
        self._count = fronts
        self._fronts: list[Front] = []
        network.door = self._let_in

    @property
    def database(self) -> apsw.Connection:
        return self.store.connection

    def start(self) -> None:
        self.begin()
        with self.dying_of_a_cut():
            self.store = open_sqlite_store(
                self.folder / "broker.db", self.clock, self._policy, vfs=self.disk.name, new_id=lambda: "broker-1"
            )
            self._writer = SimulatedWriter(self, self.store.connection, self.rng)
            if self._count == 1:  # a broker that has its database for itself begins without connections
                self._insist(forget_all_connections)
            for _ in range(self._count):
                self._start_front()

    def let_go(self) -> list[apsw.Connection]:
        for front in self._fronts:
            self._end_front(front)
        self._fronts.clear()
        return [self.store.connection] if hasattr(self, "store") else []

    def crash_front(self) -> None:
        """Ends one of several brokers, and starts another in its place a while later."""
        if self._count > 1 and self._fronts:
            front = self.rng.choice(self._fronts)
            self._fronts.remove(front)
            self._end_front(front)
            self.later(self.rng.randrange(6_000), self._start_front)

    def call(self, rule: Rule[Any], done: Callable[[Any], None] = lambda _: None) -> None:
        """Has a rule committed that nobody's connection asks for, and all brokers hear of it."""

        def tell(outcome: Outcome[Any]) -> None:
            done(outcome.value)
            self._signal("nobody", outcome)

        self._insist(rule, tell)

    def submit(self, rule: Rule[Any], done: Callable[[Outcome[Any]], Any]) -> None:
        """Has the rule committed together with whatever else waits."""
        self._writer.submit(self.store.write(rule), done)

    def set_presence(self, member_id: str, status: str) -> None:
        """What a member says it is doing; there is something for it to get, perhaps."""

        def done(_: Outcome[Any]) -> None:
            for front in self._fronts:
                self._hear(front, Signal("", wake=(member_id,)))

        self._insist(lambda tx: set_presence(tx, member_id, status, None, None), done)

    def fill_meshes(self, mesh_ids: list[str]) -> None:
        """These have no room for another byte; all others have."""

        def write(tx: Tx) -> None:
            tx.run("UPDATE mesh SET bytes_max = ?", self._policy.bytes_max)
            tx.many("UPDATE mesh SET bytes_max = 0 WHERE mesh_id = ?", [(each,) for each in mesh_ids])

        self._insist(write)

    def _insist(self, rule: Rule[Any], done: Callable[[Outcome[Any]], None] = lambda _: None) -> None:
        self._writer.insist(self.store.write(rule), done)

    def _start_front(self) -> None:
        self._numbers += 1
        front = Front(f"broker-{self._numbers}")
        self._fronts.append(front)
        self.later(TICK_MS, lambda: self._tick(front))

    def _end_front(self, front: Front) -> None:
        front.is_up = False
        for connection in front.connections.values():
            if connection.session.phase != "closed":
                self.leave(connection.wire, "broker")
        front.connections.clear()

    def _let_in(self, wire: Wire) -> bool:
        if not self.is_up or not self._fronts:
            return False
        front = self.rng.choice(self._fronts) if self._count > 1 else self._fronts[0]
        self._numbers += 1
        connection_id = f"connection-{self._numbers}"
        setting = Setting(self.store.broker_id, front.instance, self._policy, sealing.verify)
        session = Session(setting, connection_id, self.rng.randbytes(32).hex(), self.scheduler.now)
        front.connections[connection_id] = _Connection(session, wire)

        def hear(act: Callable[[], list[Effect]]) -> None:
            if self.is_frozen:
                self.thaw(lambda: hear(act))
            elif self.is_up and front.is_up and connection_id in front.connections:
                with self.dying_of_a_cut():
                    self._do(front, connection_id, act())

        wire.listen(
            "broker",
            Listener(
                on_data=lambda data: hear(lambda: session.on_frame(decode_from_daemon(data), self.scheduler.now)),
                on_closed=lambda *_: hear(lambda: self._closed(front, connection_id)),
            ),
        )
        self._do(front, connection_id, session.open())
        return True

    def _closed(self, front: Front, connection_id: str) -> list[Effect]:
        front.fanout.remove(connection_id)
        return front.connections[connection_id].session.on_closed()

    def _do(self, front: Front, connection_id: str, effects: list[Effect]) -> None:
        connection = front.connections[connection_id]
        for effect in effects:
            match effect:
                case Reply():
                    connection.wire.send("broker", encode_frame(effect.frame))
                case Close():
                    connection.wire.close("broker", effect.code, effect.reason)
                    self._do(front, connection_id, self._closed(front, connection_id))
                case Ask():
                    self._rules.run(effect.rule, self._bring(front, connection_id, effect))
                case Joined():
                    front.fanout.add(connection_id, effect.mesh_id, effect.member_id)
                    self._hear(front, Signal("", replaced=effect.replaced))
                case Wake(member_ids):
                    self._hear(front, Signal("", wake=member_ids))
                case Expel(member_ids):
                    self._hear(front, Signal("", expel=member_ids))
                case Kick(member_ids):
                    self._hear(front, Signal("", kick=member_ids))
                case Tell(mesh_id, notice):
                    self._hear(front, Signal("", told=(Told(mesh_id, notice),)))

    def _hear(self, front: Front, signal: Signal) -> None:
        """What was committed means something to these connections."""
        fanout, now = front.fanout, self.scheduler.now
        self._each(front, fanout.of_members(signal.wake), lambda session: session.on_woken(now))
        self._each(front, fanout.of_members(signal.expel), lambda session: session.on_expelled())
        self._each(front, fanout.of_members(signal.kick), lambda session: session.on_kicked())
        self._each(front, signal.replaced, lambda session: session.on_replaced())
        for told in signal.told:
            self._each(front, fanout.of_mesh(told.mesh_id), lambda session, told=told: session.on_notice(told.notice))

    def _each(self, front: Front, connection_ids: Iterable[str], act: Callable[[Session], list[Effect]]) -> None:
        for connection_id in connection_ids:
            connection = front.connections.get(connection_id)
            if connection is not None:
                self._do(front, connection_id, act(connection.session))

    def _bring(self, front: Front, connection_id: str, ask: Ask) -> Callable[[Outcome[Any]], None]:
        def bring(outcome: Outcome[Any]) -> None:
            if isinstance(ask.rule, AcceptMessage) and outcome.error is None:
                answer = _value(outcome).answer
                self.accepted += isinstance(answer, Accepted) and not answer.duplicate
            self._signal(front.instance, outcome)
            connection = front.connections.get(connection_id)
            if connection is not None:
                self._do(front, connection_id, connection.session.on_result(ask.token, outcome, self.scheduler.now))

        return bring

    def _signal(self, origin: str, outcome: Outcome[Any]) -> None:
        """Tells the other brokers what was committed; a listener that is just connecting again misses it."""
        if outcome.error is not None:
            return
        others = [front for front in self._fronts if front.instance != origin]
        for signal in signals(origin, [outcome.value]) if others else ():
            for front in others:
                if self.rng.random() >= SIGNAL_LOSS or origin == "nobody":
                    self.later(self.rng.randrange(SIGNAL_MS), lambda f=front, s=signal: self._hear(f, s))

    def _tick(self, front: Front) -> None:
        if not front.is_up:
            return
        for connection_id, connection in list(front.connections.items()):
            self._do(front, connection_id, connection.session.on_timer(self.scheduler.now))
        live = front.fanout.connections()
        self.submit(lambda tx: seen(tx, live), _value)
        self.submit(lambda tx: sweep_leases(tx, self._policy), lambda outcome: self._wake(front, _value(outcome)))
        self.submit(lambda tx: sweep(tx, self._policy, SWEEP_MESSAGES), _value)
        self.later(TICK_MS, lambda: self._tick(front))

    def _wake(self, front: Front, woken: "tuple[str, ...] | None") -> None:
        self._hear(front, Signal("", wake=woken or ()))


def _value(outcome: Outcome[Any]) -> Any:
    """What a rule came to; None when the disk was full. Nothing else may go wrong."""
    if outcome.error is not None and not isinstance(outcome.error, ParleyError):
        raise outcome.error
    return outcome.value
