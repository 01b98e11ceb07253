"""What a table of the lake is: its columns, how it is divided into files, and what it means."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

PLAIN: Final = frozenset({"data_json", "ts", "entity_id", "content_raw", "body", "fingerprint"})
"""Columns whose values hardly ever repeat: a dictionary of them would cost a fifth of the time and save nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table. Its schema may grow by columns that may be null; nothing in it is ever renamed or taken away."""

    layer: str
    """``bronze``, ``silver``, ``gold`` or ``vectors``: the folder that it lies in."""
    name: str
    schema: pa.Schema
    """All columns, those that it is partitioned by included."""
    meaning: str
    partition_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    """A column of which each file holds one value, so that statistics let a reader skip the others."""
    plain: frozenset[str] = PLAIN
    """Columns that are written without a dictionary."""

    @property
    def view(self) -> str:
        """Its name in SQL."""
        return f"{self.layer}_{self.name}"

    @property
    def file_schema(self) -> pa.Schema:
        """The columns that stand in the files; those of the partition stand in the paths."""
        return pa.schema([field for field in self.schema if field.name not in self.partition_by])
