"""A simulated broker: the product's store, sessions and fan-out on a simulated disk and network."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from parley.broker.calls import AcceptMessage
from parley.broker.fanout import Fanout
from parley.broker.policy import Policy
from parley.broker.rules.presence import forget_all_connections, seen, set_presence
from parley.broker.rules.retention import sweep_leases
from parley.broker.session import Ask, Close, Effect, Expel, Joined, Reply, Session, Setting, Tell, Wake
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
INSTANCE = "broker"


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


class BrokerNode(Node):
    """The broker of all meshes."""

    store: SqliteStore

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        network: Network,
        folder: Path,
        policy: Policy,
        rules: type[BrokerRules],
    ) -> None:
        super().__init__(name, scheduler, network, folder)
        self.accepted = 0
        self._policy = policy
        self._rules = rules(self)
        self._numbers = 0
        self._connections: dict[str, _Connection] = {}
        self._fanout = Fanout()
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
            self._setting = Setting(self.store.broker_id, INSTANCE, self._policy, sealing.verify)
            self._insist(forget_all_connections)
            self.later(TICK_MS, self._tick)

    def let_go(self) -> list[apsw.Connection]:
        for connection in self._connections.values():
            if connection.session.phase != "closed":
                self.leave(connection.wire, "broker")
        self._connections.clear()
        self._fanout = Fanout()
        return [self.store.connection] if hasattr(self, "store") else []

    def submit(self, rule: Rule[Any], done: Callable[[Outcome[Any]], Any]) -> None:
        """Has the rule committed together with whatever else waits."""
        self._writer.submit(self.store.write(rule), done)

    def set_presence(self, member_id: str, status: str) -> None:
        """What a member says it is doing; there is something for it to get, perhaps."""

        def done(_: Outcome[Any]) -> None:
            self._each(self._fanout.of_members([member_id]), lambda session: session.on_woken(self.scheduler.now))

        self._insist(lambda tx: set_presence(tx, member_id, status, None, None), done)

    def fill_meshes(self, mesh_ids: list[str]) -> None:
        """These have no room for another byte; all others have."""

        def write(tx: Tx) -> None:
            tx.run("UPDATE mesh SET bytes_max = ?", self._policy.bytes_max)
            tx.many("UPDATE mesh SET bytes_max = 0 WHERE mesh_id = ?", [(each,) for each in mesh_ids])

        self._insist(write)

    def _insist(self, rule: Rule[Any], done: Callable[[Outcome[Any]], None] = lambda _: None) -> None:
        self._writer.insist(self.store.write(rule), done)

    def _let_in(self, wire: Wire) -> bool:
        if not self.is_up:
            return False
        self._numbers += 1
        connection_id = f"connection-{self._numbers}"
        session = Session(self._setting, connection_id, self.rng.randbytes(32).hex(), self.scheduler.now)
        self._connections[connection_id] = _Connection(session, wire)
        life = self.lives

        def hear(act: Callable[[], list[Effect]]) -> None:
            if self.is_up and self.lives == life and connection_id in self._connections:
                with self.dying_of_a_cut():
                    self._do(connection_id, act())

        wire.listen(
            "broker",
            Listener(
                on_data=lambda data: hear(lambda: session.on_frame(decode_from_daemon(data), self.scheduler.now)),
                on_closed=lambda *_: hear(lambda: self._closed(connection_id)),
            ),
        )
        self._do(connection_id, session.open())
        return True

    def _closed(self, connection_id: str) -> list[Effect]:
        self._fanout.remove(connection_id)
        return self._connections[connection_id].session.on_closed()

    def _do(self, connection_id: str, effects: list[Effect]) -> None:
        connection = self._connections[connection_id]
        for effect in effects:
            match effect:
                case Reply():
                    connection.wire.send("broker", encode_frame(effect.frame))
                case Close():
                    connection.wire.close("broker", effect.code, effect.reason)
                    self._do(connection_id, self._closed(connection_id))
                case Ask():
                    self._rules.run(effect.rule, self._bring(connection_id, effect))
                case Joined():
                    self._fanout.add(connection_id, effect.mesh_id, effect.member_id)
                    self._each(effect.replaced, lambda session: session.on_replaced())
                case Wake():
                    self._each(
                        self._fanout.of_members(effect.member_ids), lambda each: each.on_woken(self.scheduler.now)
                    )
                case Expel():
                    self._each(self._fanout.of_members(effect.member_ids), lambda session: session.on_expelled())
                case Tell(notice=notice):
                    told = self._fanout.of_mesh(effect.mesh_id)
                    self._each(told, lambda session, notice=notice: session.on_notice(notice))

    def _each(self, connection_ids: "list[str] | tuple[str, ...]", act: Callable[[Session], list[Effect]]) -> None:
        for connection_id in connection_ids:
            connection = self._connections.get(connection_id)
            if connection is not None:
                self._do(connection_id, act(connection.session))

    def _bring(self, connection_id: str, ask: Ask) -> Callable[[Outcome[Any]], None]:
        def bring(outcome: Outcome[Any]) -> None:
            if isinstance(ask.rule, AcceptMessage) and outcome.error is None:
                answer = _value(outcome).answer
                self.accepted += isinstance(answer, Accepted) and not answer.duplicate
            session = self._connections[connection_id].session
            self._do(connection_id, session.on_result(ask.token, outcome, self.scheduler.now))

        return bring

    def _tick(self) -> None:
        for connection_id, connection in list(self._connections.items()):
            self._do(connection_id, connection.session.on_timer(self.scheduler.now))
        live = self._fanout.connections()
        self.submit(lambda tx: seen(tx, live), _value)
        self.submit(lambda tx: sweep_leases(tx, self._policy), self._wake)
        self.later(TICK_MS, self._tick)

    def _wake(self, outcome: Outcome[Any]) -> None:
        woken = self._fanout.of_members(_value(outcome) or ())
        self._each(woken, lambda session: session.on_woken(self.scheduler.now))


def _value(outcome: Outcome[Any]) -> Any:
    """What a rule came to; None when the disk was full. Nothing else may go wrong."""
    if outcome.error is not None and not isinstance(outcome.error, ParleyError):
        raise outcome.error
    return outcome.value
