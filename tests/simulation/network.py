"""A network between daemons and a broker, in which everything goes wrong that can.

A ``Wire`` is one connection. Within one direction of it frames keep their order, as TCP has it; between wires they
overtake each other freely. Beyond what TCP does, single frames are lost and doubled, so that nothing rests on a
connection being as good as its word. A wire may be cut with both ends told, with one end told, or with neither (half
open: only silence tells). While a node is partitioned nothing that it sends or is sent arrives: it is held, and
arrives late, or never.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.simulation.scheduler import Scheduler

End = Literal["daemon", "broker"]
ENDS: tuple[End, ...] = ("daemon", "broker")
OTHER: dict[End, End] = {"daemon": "broker", "broker": "daemon"}
CLOSED_ABNORMALLY = 1006
_SPARED = tuple(f'{{"type":"{name}"'.encode() for name in ("challenge", "hello", "welcome", "negotiate", "features"))
"""A greeting is not doubled within one connection; lost it is only with the connection."""


@dataclass(frozen=True)
class Weather:
    """How bad it is. Chances are per frame, times in milliseconds."""

    latency_ms: int = 20
    loss: float = 0.0
    doubling: float = 0.0
    late: float = 0.0
    late_ms: int = 2_000


CALM = Weather()


@dataclass
class Listener:
    """What one end does with what arrives. Taken away when the end's process is gone."""

    on_data: Callable[[bytes], None]
    on_closed: Callable[[int | None, str], None]
    on_connected: Callable[[], None] = lambda: None


class Network:
    """All wires of a world."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.weather = CALM
        self.frames = 0
        self.door: Callable[[Wire], bool] = lambda _: False
        """Where new connections arrive; False when nobody is there to take one."""
        self._scheduler = scheduler
        self._rng = scheduler.stream("network")
        self._partitioned: set[str] = set()
        self._wires: dict[int, Wire] = {}
        self._numbers = 0

    def connect(self, daemon: str, listener: Listener) -> "Wire":
        """A new wire from a daemon; the broker's end gets its listener when the connection arrives there."""
        self._numbers += 1
        wire = Wire(self, self._numbers, daemon, listener)
        self._wires[wire.number] = wire
        return wire

    def is_partitioned(self, daemon: str) -> bool:
        return daemon in self._partitioned

    def partition(self, daemon: str) -> None:
        self._partitioned.add(daemon)

    def heal(self, daemon: str) -> None:
        """What was held arrives now; some wires turn out to be dead, told or untold."""
        if daemon not in self._partitioned:
            return
        self._partitioned.discard(daemon)
        for wire in self.wires_of(daemon):
            fate = self._rng.random()
            if fate < 0.3:
                wire.cut(tell=("daemon", "broker"))
            elif fate < 0.5:
                wire.cut(tell=())
            else:
                wire.release()

    def wires_of(self, daemon: str | None = None) -> list["Wire"]:
        """Wires that still carry, oldest first."""
        return [wire for wire in self._wires.values() if daemon in (None, wire.daemon)]

    def forget(self, wire: "Wire") -> None:
        self._wires.pop(wire.number, None)

    def after(self, milliseconds: int, action: Callable[[], None]) -> None:
        self._scheduler.after(milliseconds, action)

    def now(self) -> int:
        return self._scheduler.now

    def latency(self) -> int:
        weather = self.weather
        if weather.late and self._rng.random() < weather.late:
            return self._rng.randrange(weather.late_ms)
        return 1 + self._rng.randrange(weather.latency_ms)

    def copies(self, data: bytes) -> int:
        """How often a frame arrives on a wire that carries."""
        weather = self.weather
        if not (weather.loss or weather.doubling) or data.startswith(_SPARED):
            return 1
        fate = self._rng.random()
        if fate < weather.loss:
            return 0
        return 2 if fate < weather.loss + weather.doubling else 1


class Wire:
    """One connection, seen from both ends."""

    def __init__(self, network: Network, number: int, daemon: str, listener: Listener) -> None:
        self.number = number
        self.daemon = daemon
        self._network = network
        self._listeners: dict[End, Listener | None] = {"daemon": listener, "broker": None}
        self._carries = True
        self._last_arrival: dict[End, int] = {"daemon": 0, "broker": 0}
        self._held: deque[tuple[End, Callable[[], None]]] = deque()

    def listen(self, end: End, listener: Listener) -> None:
        self._listeners[end] = listener

    def abandon(self, end: End) -> None:
        """This end's process is gone, and reads no more. What it sent before is still on its way."""
        self._listeners[end] = None
        if self._listeners[OTHER[end]] is None:
            self._network.forget(self)

    def dial(self) -> None:
        """The daemon knocks. It is let in, turned away, or hears nothing while it is partitioned."""
        self._carry("broker", self._knock)

    def send(self, sender: End, data: bytes) -> None:
        """Puts a frame on its way."""
        self._network.frames += 1
        for _ in range(self._network.copies(data)):
            self._carry(OTHER[sender], lambda: self._arrive(OTHER[sender], data))

    def close(self, closer: End, code: int, reason: str) -> None:
        """This end is done; the other learns it after all that was sent before."""
        self.abandon(closer)
        self._carry(OTHER[closer], lambda: self._end(OTHER[closer], code, reason))

    def cut(self, tell: tuple[End, ...]) -> None:
        """Nothing more arrives. Ends in ``tell`` are told at once, the others find out by the silence."""
        self._carries = False
        self._held.clear()
        self._network.forget(self)
        for end in tell:
            self._network.after(0, lambda end=end: self._tell(end, CLOSED_ABNORMALLY, "cut"))

    def release(self) -> None:
        """Lets arrive what a partition held."""
        while self._held:
            end, arrive = self._held.popleft()
            self._carry(end, arrive)

    def _carry(self, receiver: End, arrive: Callable[[], None]) -> None:
        arrival = max(self._last_arrival[receiver], self._network.now() + self._network.latency())
        self._last_arrival[receiver] = arrival
        self._network.after(arrival - self._network.now(), lambda: self._at_the_door(receiver, arrive))

    def _at_the_door(self, receiver: End, arrive: Callable[[], None]) -> None:
        if not self._carries:
            return
        if self._network.is_partitioned(self.daemon):
            self._held.append((receiver, arrive))
        else:
            arrive()

    def _knock(self) -> None:
        # That the socket is open arrives before anything that the broker says on it.
        self._carry("daemon", self._open)
        if not self._network.door(self):
            self.cut(tell=())
            self._network.after(self._network.latency(), lambda: self._tell("daemon", None, "refused"))

    def _open(self) -> None:
        listener = self._listeners["daemon"]
        if listener is not None:
            listener.on_connected()

    def _arrive(self, receiver: End, data: bytes) -> None:
        listener = self._listeners[receiver]
        if listener is not None:
            listener.on_data(data)

    def _end(self, receiver: End, code: int, reason: str) -> None:
        self._carries = False
        self._network.forget(self)
        self._tell(receiver, code, reason)

    def _tell(self, receiver: End, code: int | None, reason: str) -> None:
        listener = self._listeners[receiver]
        self._listeners[receiver] = None
        if listener is not None:
            listener.on_closed(code, reason)
