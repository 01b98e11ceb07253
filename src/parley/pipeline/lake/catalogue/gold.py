"""Gold: how the agents work, counted."""

from typing import Final

from parley.pipeline.lake.tables import Table

TABLES: Final[tuple[Table, ...]] = ()
