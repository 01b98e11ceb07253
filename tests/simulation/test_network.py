"""The simulated network and its time: order within a wire, and every way in which a wire can fail."""

from dataclasses import dataclass, field

from tests.simulation.network import CLOSED_ABNORMALLY, Listener, Network, Weather, Wire
from tests.simulation.scheduler import Scheduler

STORM = Weather(latency_ms=50, loss=0.2, doubling=0.2, late=0.2, late_ms=500)


@dataclass
class Ear:
    """Hears one end of a wire."""

    heard: list[bytes] = field(default_factory=list)
    closed: list[tuple[int | None, str]] = field(default_factory=list)

    def listener(self) -> Listener:
        return Listener(self.heard.append, lambda code, reason: self.closed.append((code, reason)))


def _wire(seed: int = 1, daemon: str = "a") -> tuple[Scheduler, Network, Wire, Ear, Ear]:
    scheduler = Scheduler(seed)
    network = Network(scheduler)
    daemon_ear, broker_ear = Ear(), Ear()
    wire = network.connect(daemon, daemon_ear.listener())
    wire.listen("broker", broker_ear.listener())
    return scheduler, network, wire, daemon_ear, broker_ear


def _frames(count: int) -> list[bytes]:
    return [b'{"type":"send","number":%d}' % number for number in range(count)]


def test_a_wire_keeps_its_order_while_wires_overtake_each_other() -> None:
    scheduler, network, wire, _, ear = _wire()
    network.weather = Weather(late=0.5, late_ms=1_000)
    other = network.connect("b", Ear().listener())
    order: list[tuple[str, bytes]] = []
    wire.listen("broker", Listener(lambda data: order.append(("a", data)), ear.listener().on_closed))
    other.listen("broker", Listener(lambda data: order.append(("b", data)), ear.listener().on_closed))
    for frame in _frames(50):
        wire.send("daemon", frame)
        other.send("daemon", frame)
    scheduler.run_until(100_000)
    assert [data for name, data in order if name == "a"] == _frames(50)
    assert [data for name, data in order if name == "b"] == _frames(50)
    assert [name for name, _ in order] != ["a", "b"] * 50


def test_a_storm_loses_and_doubles_frames_but_no_greeting() -> None:
    scheduler, network, wire, _, ear = _wire()
    network.weather = STORM
    greetings = [b'{"type":"hello","number":%d}' % number for number in range(100)]
    for frame in [*greetings, *_frames(100)]:
        wire.send("daemon", frame)
    scheduler.run_until(100_000)
    assert ear.heard[:100] == greetings
    counts = [ear.heard.count(frame) for frame in _frames(100)]
    assert set(counts) == {0, 1, 2}


def test_a_close_arrives_after_what_was_sent_before() -> None:
    scheduler, _, wire, ear, broker_ear = _wire()
    wire.send("broker", b"last words")
    wire.close("broker", 4002, "banned")
    wire.send("daemon", b"nobody reads this")
    scheduler.run_until(1_000)
    assert (ear.heard, ear.closed) == ([b"last words"], [(4002, "banned")])
    assert (broker_ear.heard, broker_ear.closed) == ([], [])


def test_a_half_open_wire_is_silent() -> None:
    scheduler, network, wire, ear, broker_ear = _wire()
    wire.cut(tell=("broker",))
    wire.send("daemon", b"into the void")
    scheduler.run_until(1_000)
    assert broker_ear.closed == [(CLOSED_ABNORMALLY, "cut")]
    assert (ear.closed, broker_ear.heard) == ([], [])
    assert network.wires_of() == []


def test_a_partition_holds_frames_until_it_heals_or_the_wire_dies_of_it() -> None:
    arrived = dead = 0
    for seed in range(40):
        scheduler, network, wire, ear, broker_ear = _wire(seed)
        network.partition("a")
        for frame in _frames(5):
            wire.send("daemon", frame)
        scheduler.run_until(10_000)
        assert broker_ear.heard == []
        network.heal("a")
        scheduler.run_until(20_000)
        assert broker_ear.heard in ([], _frames(5))
        arrived += broker_ear.heard != []
        dead += ear.closed != []
    assert arrived
    assert dead
    assert arrived + dead < 40  # the rest is half open


def test_a_process_that_is_gone_hears_nothing() -> None:
    scheduler, _, wire, ear, _ = _wire()
    wire.send("broker", b"too late")
    wire.abandon("daemon")
    scheduler.run_until(1_000)
    assert ear.heard == []


def test_the_same_seed_gives_the_same_course() -> None:
    def course(seed: int) -> list[bytes]:
        scheduler, network, wire, _, ear = _wire(seed)
        network.weather = STORM
        for frame in _frames(100):
            wire.send("daemon", frame)
        scheduler.run_until(100_000)
        return ear.heard

    assert course(3) == course(3) != course(4)


def test_events_of_one_time_come_in_the_order_in_which_they_were_asked_for() -> None:
    scheduler = Scheduler(1)
    seen: list[int] = []
    for number in range(10):
        scheduler.after(5, lambda number=number: seen.append(number))
    scheduler.after(1, lambda: scheduler.after(4, lambda: seen.append(10)))
    scheduler.run_until(5)
    assert seen == list(range(11))
    assert scheduler.now == 5
