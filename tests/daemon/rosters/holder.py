"""Members who drive errands against a broker's own rules, by hand: what is kept, in which order, and what is asked."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from parley.core.errors import ParleyError
from parley.core.roster import Step
from parley.core.roster.epoch_keys import EpochKeys, with_keys
from parley.daemon.rosters.copy import RosterCopy
from parley.daemon.rosters.errands import Ask, Errand, Keep, KeepKeys, Me, Need, Pause
from tests.conformance.broker.rostered import Rostered

T = TypeVar("T")
Asks = Callable[[str, dict[str, Any]], Any]


def keys_of(epoch: int) -> EpochKeys:
    """The keys that the entries of ``Town.new_key`` commit to."""
    mesh, data = (hashlib.sha256(f"{purpose} {epoch}".encode()).digest() for purpose in ("mesh", "data"))
    return EpochKeys(epoch, mesh, data)


class Holder:
    """A member of a mesh at a broker, with a copy of its own."""

    def __init__(self, mesh: Rostered, name: str, asks: Asks | None = None) -> None:
        """``asks`` takes the place of the broker, which then says what it likes."""
        self.name = name
        self.mesh = mesh
        self.copy = RosterCopy(mesh.town.state.fingerprint)
        self.steps: list[Step] = []
        self.held: list[EpochKeys] = []
        self.needs: list[Need] = []
        self._asks = asks or (lambda method, params: mesh.call(name, method, **params).result)
        self._drawn = 0

    @property
    def me(self) -> Me:
        town = self.mesh.town
        seed = town.seeds[self.name]
        return Me(
            town.ids.get(self.name, ""),
            seed,
            [seed],
            self.mesh.clock.now_ms,
            self._random,
            lambda: self.held,
        )

    def run(self, errand: Errand[T]) -> T:
        """Drives the errand; what it needed is in ``needs``, what it had kept in ``steps`` and ``held``."""
        sent: Any = None
        refusal: ParleyError | None = None
        while True:
            try:
                need = errand.send(sent) if refusal is None else errand.throw(refusal)
            except StopIteration as end:
                return end.value
            self.needs.append(need)
            sent = refusal = None
            try:
                sent = self._fill(need)
            except ParleyError as error:
                refusal = error

    def asked(self) -> list[str]:
        """The methods that were asked for."""
        return [need.method for need in self.needs if isinstance(need, Ask)]

    def lost(self, start: int, limit: int) -> Sequence[bytes]:
        """Entries of the own copy."""
        return [step.data for step in self.steps[start : start + limit]]

    def _fill(self, need: Need) -> Any:
        match need:
            case Ask():
                return self._asks(need.method, need.params)
            case Keep():
                kept = self.steps if need.fork is None else self.steps[: need.fork + 1]
                self.steps = [*kept, *need.steps]
            case KeepKeys():
                self.held = with_keys(self.held, need.keys)
            case Pause():
                self.mesh.pass_time(need.ms / 1000)
        return None

    def _random(self, count: int) -> bytes:
        self._drawn += 1
        return hashlib.sha512(f"{self.name} {self._drawn}".encode()).digest()[:count]
