"""Silver: what the events add up to, typed."""

from typing import Final

from parley.pipeline.lake.tables import Table

TABLES: Final[tuple[Table, ...]] = ()
