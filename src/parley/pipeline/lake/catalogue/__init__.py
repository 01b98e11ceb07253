"""Every table of the lake, one module a layer."""

from typing import Final

from parley.core.pipeline_errors import LakeNotFound
from parley.pipeline.lake.catalogue import bronze, gold, mesh, silver, vectors
from parley.pipeline.lake.tables import Table

TABLES: Final[tuple[Table, ...]] = (
    *bronze.TABLES,
    *silver.TABLES,
    *gold.TABLES,
    *vectors.TABLES,
    *mesh.TABLES,
)


def find_table(view: str) -> Table:
    """The table of this name in SQL. Raises ``LakeNotFound``."""
    for table in TABLES:
        if table.view == view:
            return table
    raise LakeNotFound(f"There is no table {view}; there are {', '.join(table.view for table in TABLES)}", table=view)
