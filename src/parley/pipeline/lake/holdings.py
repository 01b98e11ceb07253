"""What bronze holds of each hub by its log alone: counted from the statistics of its files, beside the cursors.

No file is opened and no Spark is needed. Both are read at one version of the table, so what others commit meanwhile
makes no difference between them.
"""

from typing import Any, NamedTuple

from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.commit import exists, open_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.place import Lake


class Holding(NamedTuple):
    """The events of one hub: how many, from which id to which, and where its cursor stands."""

    rows: int
    first: int
    last: int
    cursor: int | None

    @property
    def problem(self) -> str | None:
        """What cannot be, in words."""
        if self.cursor is None:
            return "has no cursor"
        if self.last != self.cursor:
            return f"ends at event {self.last}, where its cursor stands at {self.cursor}"
        if self.rows > self.last - self.first + 1:
            return f"has {self.rows} rows for the {self.last - self.first + 1} events {self.first} to {self.last}"
        return None


def read_holdings(lake: Lake, cursor_prefix: str) -> dict[str, Holding] | None:
    """What the table's log says of each hub; None if a file lacks the statistics, so that nothing can be said."""
    if not exists(lake, EVENTS):
        return {}
    table = open_table(lake, EVENTS)
    cursors = read_cursors(lake, EVENTS, table.version())
    held: dict[str, Holding] = {}
    for file in _files(table):
        db_id = file.get("min.db_id")
        if db_id is None or db_id != file.get("max.db_id") or file.get("num_records") is None:
            return None
        before = held.get(db_id, Holding(0, file["min.event_id"], 0, cursors.get(cursor_prefix + db_id)))
        held[db_id] = Holding(
            before.rows + file["num_records"],
            min(before.first, file["min.event_id"]),
            max(before.last, file["max.event_id"]),
            before.cursor,
        )
    return held


def _files(table: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    return pa.table(table.get_add_actions(flatten=True)).to_pylist()
