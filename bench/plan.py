"""How much work each phase does; ``--quick`` does a tenth of it."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, Self

LAKE_PARTS: Final = ("ingest", "build", "gold", "audit", "incremental", "enrich", "fold")
"""What can be measured of the pipeline; ingest always is, since all else needs it."""
LAKE_SIZES: Final = ("small", "large")


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
    crowd: int = 1_000
    crowd_idle_seconds: int = 40
    bus_1: int = 2_000
    bus_50: int = 5_000
    bus_large: int = 100
    lake_small: int = 1_000_000
    lake_large: int = 5_000_000
    lake_parts: tuple[str, ...] = LAKE_PARTS
    lake_sizes: tuple[str, ...] = LAKE_SIZES
    lake_keep: Path | None = None
    """Where made histories stay for the next run."""

    def quick(self) -> Self:
        """The same with a tenth of the work: to see that everything runs, not to judge by."""
        numbers = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.type is int}
        return replace(self, **{name: number // 10 for name, number in numbers.items() if name != "repeat"})
