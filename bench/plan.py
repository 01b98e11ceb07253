"""How much work each phase does; ``--quick`` does a tenth of it."""

from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of the phases and how often each is repeated."""

    repeat: int = 3
    insert_1: int = 2_000
    insert_16: int = 10_000
    edit: int = 2_000
    history: int = 100_000
    tail: int = 2_000
    move: int = 1_000
    move_large: int = 20_000
    fanout_closed: int = 400
    fanout_saturated: int = 4_000
    derived: int = 5_000
    derived_1: int = 500
    hung_1: int = 1_000
    hung_16: int = 5_000
    tools: int = 500
    claims: int = 400
    page: int = 100_000
    page_screens: int = 300
    mesh_closed: int = 5_000
    mesh_burst: int = 10_000
    lake_small: int = 1_000_000
    lake_large: int = 5_000_000

    def quick(self) -> Self:
        """The same with a tenth of the work: to see that everything runs, not to judge by."""
        sizes = {entry.name: getattr(self, entry.name) // 10 for entry in fields(self) if entry.name != "repeat"}
        return type(self)(repeat=self.repeat, **sizes)
