"""Delivery across machines, as a report tells it; a lake without brokers has nothing to tell."""

from typing import Any, Final

from parley.pipeline.brokers.rows import read_rows
from parley.pipeline.lake.catalogue.mesh import DELIVERY_TIMES
from parley.pipeline.lake.commit import exists
from parley.pipeline.lake.place import Lake
from parley.pipeline.report import words
from parley.pipeline.report.findings import Findings, Row
from parley.pipeline.report.markup import Column, Markup, section, table

ROWS_MAX: Final = 15
_COUNTED: Final = ("deliveries", "delivered", "open", "dead", "undecryptable")


def read_deliveries(lake: Lake) -> list[Row]:
    """The meshes and priorities with the most open deliveries, then with the most deliveries."""
    if not exists(lake, DELIVERY_TIMES):
        return []
    rows: list[Row] = read_rows(lake, DELIVERY_TIMES).to_pylist()
    for row in rows:
        since: Any = row["oldest_open_at"]
        row["oldest_open_at"] = None if since is None else round(since.timestamp() * 1000)
    order = sorted(rows, key=lambda row: (-row["open"], -row["deliveries"], row["mesh_id"], row["priority"] or ""))
    return order[:ROWS_MAX]


def mesh(found: Findings) -> list[Markup]:
    """What became of deliveries, how long they took, and which wait."""
    if not found.deliveries:
        return []
    columns = [
        Column("mesh"),
        Column("priority"),
        *(Column(name, True) for name in (*_COUNTED, "median", "99 % within")),
        Column("oldest open"),
    ]
    rows = [
        (
            words.name(row["mesh"] or row["mesh_id"]),
            words.name(row["priority"]),
            *(words.number(row[name]) for name in _COUNTED),
            words.duration(row["p50_ms"]),
            words.duration(row["p99_ms"]),
            words.moment(row["oldest_open_at"]),
        )
        for row in found.deliveries
    ]
    lead = "From when the broker accepted a message until the recipient's machine had it, by the broker's clock."
    return [section("mesh", "Delivery across machines", [table("Deliveries", columns, rows, "None.")], lead)]
