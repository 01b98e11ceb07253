"""Vectors and enrichments that were computed in bulk."""

from typing import Final

from parley.pipeline.lake.tables import Table

TABLES: Final[tuple[Table, ...]] = ()
