"""A whole mesh in one process: daemons, a broker, their disks, their network and their time, from one seed.

A world goes through rounds. In each its programs send while everything goes wrong: frames are lost, doubled and late,
wires are cut and partitioned, clocks are set, processes are killed and machines lose power in the midst of a write, or
sleep while others wait for them. Meanwhile people block each other, throw each other out and replace their keys. Every
other world has two brokers in front of its database. Then the weather calms, everybody is started again, and what must
hold is looked at.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from parley.broker.policy import DAY_MS, Policy
from tests.simulation.broker_node import BrokerNode, BrokerRules
from tests.simulation.changes import Changes
from tests.simulation.checks import Judge, State
from tests.simulation.daemon_node import DaemonNode, Rules
from tests.simulation.ledger import Ledger
from tests.simulation.network import CALM, ENDS, End, Network, Weather
from tests.simulation.node import Node
from tests.simulation.population import Population, populate
from tests.simulation.programs import Programs
from tests.simulation.scheduler import Scheduler

STORMS = (
    Weather(latency_ms=40, loss=0.02, doubling=0.02, late=0.05, late_ms=3_000),
    Weather(latency_ms=200, loss=0.05, doubling=0.10, late=0.02, late_ms=20_000),
    Weather(latency_ms=5, doubling=0.05, late=0.02, late_ms=500),
)
POLICY = Policy(window=16, lease_ms=8_000, heartbeat_ms=8_000, poll_ms=10_000, rate_window_ms=5_000, rate_messages=40)
SETTLE_MS = 12 * 60 * 1000
"""How long a calm world may take until everything has come to rest, of its own time."""
SETTLE_EVENTS = 40_000
"""How much may happen until then; more is a world that runs in circles."""
CLOCK_MS = POLICY.delivery_days * DAY_MS * 2 // 5
"""By how much a clock may be set, in either direction. From one end to the other is less than any age at which a daemon
gives up a message, or a broker what waits for somebody who is away."""
FREEZE_MS = (1_000, 10_000, 60_000)
"""How long a machine may sleep: shorter than a lease, longer than one, and longer than silence is borne."""


@dataclass(frozen=True)
class Plan:
    """The size of a world, and what goes wrong in it."""

    daemons: int = 4
    meshes: int = 2
    rounds: int = 2
    messages: int = 40
    """For each daemon and round."""
    pause_ms: int = 1_000
    trouble_ms: int = 600
    """About how long nothing new goes wrong."""


PLAN = Plan()


@dataclass
class Result:
    """How a world went. The same seed and plan give the same result, byte for byte."""

    seed: int
    operations: int
    crashes: int
    digest: str
    problems: list[str] = field(default_factory=list)


class World:
    """One world, to be run once."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        plan: Plan = PLAN,
        rules: type[Rules] = Rules,
        broker_rules: type[BrokerRules] = BrokerRules,
    ) -> None:
        self.plan = plan
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.ledger = Ledger()
        self.broker = BrokerNode(
            "broker", self.scheduler, self.network, folder, POLICY, broker_rules, fronts=1 + seed % 2
        )
        names = [f"daemon-{number}" for number in range(plan.daemons)]
        self.daemons = [DaemonNode(name, self.scheduler, self.network, folder, rules) for name in names]
        self.people = Population(names)
        self._rng = self.scheduler.stream("trouble")
        self._is_stormy = False
        self._full_mesh: str | None = None

    def run(self) -> Result:
        """The whole course, up to the first problem."""
        self._begin()
        problems: list[str] = []
        for number in range(self.plan.rounds):
            is_last = number == self.plan.rounds - 1
            self._full_mesh = None if is_last else self._rng.choice(self.people.mesh_ids)
            self._round()
            self._calm()
            problems = self._come_to_rest()
            judge = self._judge()
            problems += judge.in_the_end() if is_last else judge.always()
            problems += [
                f"{each.name} gave up: {why}"
                for each in self.daemons
                for mesh_id, why in each.ended
                if (mesh_id, each.name) not in self.people.gone
            ]
            if problems:
                break
        result = Result(self.scheduler.seed, self._operations(), self._crashes(), self._digest(), problems)
        for node in self._nodes():
            node.crash(torn=False)
        return result

    def _begin(self) -> None:
        self.broker.start()
        self.people = populate(
            self.broker.store,
            self.scheduler.stream("population"),
            [each.name for each in self.daemons],
            self.plan.meshes,
        )
        for daemon in self.daemons:
            daemon.memberships = [
                self.people.members[mesh_id, daemon.name] for mesh_id in self.people.meshes_of(daemon.name)
            ]
            daemon.start()
        self._changes = Changes(self.people, self.broker, self.daemons, self.scheduler.stream("changes"))
        self._programs = [Programs(each, self.people, self.ledger, self.scheduler) for each in self.daemons]

    def _round(self) -> None:
        """Sends, while everything goes wrong. A full mesh takes nothing for now, which is nobody else's trouble."""
        self.broker.fill_meshes([self._full_mesh] if self._full_mesh else [])
        for daemon in self.daemons:
            self._changes.replace_a_key(daemon)
        self.network.weather, self._is_stormy = self._rng.choice(STORMS), True
        for programs in self._programs:
            programs.start(self.plan.messages, self.plan.pause_ms)
        self.scheduler.after(self._pause(), self._trouble)
        while not all(programs.is_over for programs in self._programs):
            self.scheduler.run_until(self.scheduler.now + 1_000)

    def _trouble(self) -> None:
        if not self._is_stormy:
            return
        rng, daemon = self._rng, self._rng.choice(self.daemons)
        node = rng.choice(self._nodes())
        kinds: list[tuple[int, Callable[[], None]]] = [
            (3, lambda: self._crash(node)),
            (2, lambda: node.cut_power_within(1 + rng.randrange(60))),
            (2, lambda: self._cut_a_wire(daemon.name)),
            (2, lambda: self._partition(daemon.name)),
            (1, lambda: self._set_clock(node)),
            (1, lambda: self._be_busy(daemon)),
            (1, lambda: self._fill_disk(node)),
            (1, lambda: node.freeze(rng.choice(FREEZE_MS))),
            (1, self.broker.crash_front),
            (1, self._changes.change_a_block),
            (1, self._changes.throw_out),
            (1, lambda: self._changes.replace_a_key(daemon)),
        ]
        rng.choices([act for _, act in kinds], [weight for weight, _ in kinds])[0]()
        for each in self._nodes():
            if not each.is_up:
                self.scheduler.after(rng.randrange(6_000), lambda each=each: None if each.is_up else each.start())
        self.scheduler.after(self._pause(), self._trouble)

    def _crash(self, node: Node) -> None:
        node.crash(torn=self._rng.random() < 0.5)

    def _cut_a_wire(self, daemon: str) -> None:
        wires = self.network.wires_of(daemon)
        if wires:
            tell: tuple[End, ...] = tuple(end for end in ENDS if self._rng.random() < 0.5)
            self._rng.choice(wires).cut(tell)

    def _partition(self, daemon: str) -> None:
        self.network.partition(daemon)
        self.scheduler.after(self._rng.choice((500, 5_000, 30_000)), lambda: self.network.heal(daemon))

    def _set_clock(self, node: Node) -> None:
        node.clock.offset_ms = self._rng.randrange(-CLOCK_MS, CLOCK_MS)

    def _fill_disk(self, node: Node) -> None:
        node.disk.is_full = True
        self.scheduler.after(self._rng.randrange(5_000), lambda: self._make_room(node))

    def _make_room(self, node: Node) -> None:
        node.disk.is_full = False

    def _be_busy(self, daemon: DaemonNode) -> None:
        status = self._rng.choice(("idle", "working", "dnd"))
        for of in daemon.memberships if self.broker.is_up else ():
            self.broker.set_presence(of.member_id, status)

    def _pause(self) -> int:
        return self._rng.randrange(2 * self.plan.trouble_ms)

    def _calm(self) -> None:
        self._is_stormy, self.network.weather = False, CALM
        for daemon in self.daemons:
            self.network.heal(daemon.name)
        for node in self._nodes():
            node.disk.cut_after, node.disk.is_full = None, False
            if not node.is_up:
                node.start()
        for of in self.people.members.values():
            self.broker.set_presence(of.member_id, "idle")

    def _come_to_rest(self) -> list[str]:
        """Waits until nothing more is on its way; what still was when the time was up."""
        until, busy = self.scheduler.now + SETTLE_MS, self.scheduler.events + SETTLE_EVENTS
        while self.scheduler.now < until and self.scheduler.events < busy:
            self.scheduler.run_until(self.scheduler.now + 1_000)
            if not any(programs.is_waiting for programs in self._programs) and not self._unfinished():
                return []
        return [f"never came to rest: {each}" for each in self._unfinished()]

    def _unfinished(self) -> list[str]:
        found = [
            f"{daemon.name} has {row[0]} {row[1]}"
            for daemon in self.daemons
            for row in daemon.databases[0].execute(
                "SELECT client_message_id, status, mesh_id FROM outbox"
                " WHERE status IN ('pending', 'inflight') AND mesh_id IS NOT ?",
                (self._full_mesh,),
            )
            if (row[2], daemon.name) not in self.people.gone
        ]
        rows = self.broker.database.execute(
            "SELECT broker_message_id, recipient_id, state FROM delivery_queue WHERE state IN ('queued', 'leased')"
        )
        return [*found, *(f"{row[0]} is {row[2]} for {row[1]}" for row in rows)]

    def _judge(self) -> Judge:
        return Judge(self._state(), self.people, self.ledger)

    def _state(self) -> State:
        state = State()
        state.read_broker(self.broker.database)
        for daemon in self.daemons:
            state.read_daemon(daemon.name, *daemon.databases)
        return state

    def _nodes(self) -> list[Node]:
        return [*self.daemons, self.broker]

    def _operations(self) -> int:
        """Answers to programs, messages accepted, deliveries stored."""
        return self.ledger.answers + self.broker.accepted + sum(each.received for each in self.daemons)

    def _crashes(self) -> int:
        return sum(node.crashes for node in self._nodes())

    def _digest(self) -> str:
        """Over everything that is left, and over how much happened on the way."""
        counted = (self.scheduler.events, self.scheduler.now, self.network.frames, self._operations(), self._crashes())
        return hashlib.sha256(repr((counted, self._state())).encode()).hexdigest()
