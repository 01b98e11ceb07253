"""How meshes deliver: for each mesh and priority what became of its deliveries, and how long they took.

Percentiles are exact and interpolated between neighbours, as in the other gold tables. A latency is from the moment
when the broker accepted a message to the last acknowledgement of the recipient, by the broker's clock; where that ran
backwards, it is unknown.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.brokers.rows import read_rows, write_rows
from parley.pipeline.lake.catalogue.mesh import DELIVERY_TIMES, MESH_DELIVERIES, MESH_MESSAGES
from parley.pipeline.lake.commit import WHOLE, Step, commit, cursor, discard, exists, table_version
from parley.pipeline.lake.place import Lake

CURSOR: Final = "parley.gold.delivery_times_of"
"""The version of the deliveries that the table was counted from."""
CONFLICTS_MAX: Final = 20
_SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
_GROUP: Final = ("broker_id", "mesh_id", "priority")


def count_deliveries(lake: Lake) -> int | None:
    """Counts the table anew; how many rows it has. None if there was nothing to count, or nothing new."""
    if not exists(lake, MESH_DELIVERIES):
        return None
    for _ in range(CONFLICTS_MAX):
        try:
            return _count(lake)
        except LakeConflict:
            continue  # another build has counted, perhaps just this
    raise LakeConflict(f"Other builds were quicker {CONFLICTS_MAX} times in a row", table=DELIVERY_TIMES.view)


def _count(lake: Lake) -> int | None:
    version = table_version(lake, MESH_DELIVERIES)
    stands, base = cursor(lake, DELIVERY_TIMES, CURSOR), table_version(lake, DELIVERY_TIMES)
    if stands == version:
        return None
    rows: Any = pa.Table.from_pylist([*delivery_times(lake, version)], schema=DELIVERY_TIMES.schema)
    files = write_rows(lake, DELIVERY_TIMES, rows, {})
    try:
        step = Step(CURSOR, stands, version)
        commit(lake, DELIVERY_TIMES, files, cursors=[step], replace=WHOLE, base=base, about={"parley": "build"})
    except BaseException:
        discard(lake, DELIVERY_TIMES, files)
        raise
    return rows.num_rows


def delivery_times(lake: Lake, version: int) -> Iterator[dict[str, Any]]:
    """The rows of the table, in the order of their meshes and priorities."""
    columns = [*_GROUP, "state", "status", "attempts", "gone", "queued_at", "latency_ms"]
    seen: Any = read_rows(lake, MESH_DELIVERIES, version=version, columns=columns)
    named = _slugs(lake)
    grouped = (
        _marked(seen)
        .group_by(list(_GROUP))
        .aggregate(
            [
                ("state", "count"),
                *((name, "sum") for name in ("delivered", "undecryptable", "dead", "open", "repeated")),
                ("open_since", "min"),
                ("latency_ms", "list"),
            ]
        )
    )
    for row in grouped.sort_by([(name, "ascending") for name in _GROUP]).to_pylist():
        known = pa.array([each for each in row["latency_ms_list"] if each is not None and each >= 0], pa.int64())
        yield {
            **{name: row[name] for name in _GROUP},
            "mesh": named.get(row["mesh_id"]),
            "deliveries": row["state_count"],
            **{name: row[f"{name}_sum"] for name in ("delivered", "undecryptable", "dead", "open", "repeated")},
            "oldest_open_at": row["open_since_min"],
            **_measures(known),
        }


def _marked(seen: Any) -> Any:
    """The deliveries with a column of 0 and 1 for each thing that is counted."""
    arrow: Any = pc
    waiting = arrow.is_in(seen["state"], value_set=pa.array(["queued", "leased"]))
    is_open = arrow.and_(waiting, arrow.invert(seen["gone"]))
    marks = {
        "delivered": arrow.equal(seen["state"], "delivered"),
        "undecryptable": arrow.fill_null(arrow.equal(seen["status"], "undecryptable"), False),
        "dead": arrow.equal(seen["state"], "dead"),
        "open": is_open,
        "repeated": arrow.greater(seen["attempts"], 1),
    }
    for name, mark in marks.items():
        seen = seen.append_column(name, mark.cast(pa.int64()))
    never = pa.scalar(None, seen["queued_at"].type)
    return seen.append_column("open_since", arrow.if_else(is_open, seen["queued_at"], never))


def _measures(known: Any) -> dict[str, Any]:
    arrow: Any = pc
    shares = arrow.quantile(known, q=[*_SHARES.values()]).to_pylist()
    most = arrow.max(known).as_py()
    return {"measured": len(known), **dict(zip(_SHARES, shares, strict=True)), "max_ms": most}


def _slugs(lake: Lake) -> dict[str, str]:
    if not exists(lake, MESH_MESSAGES):
        return {}
    named: Any = read_rows(lake, MESH_MESSAGES, columns=["mesh_id", "mesh"])
    pairs = named.group_by(["mesh_id", "mesh"]).aggregate([]).to_pylist()
    return {row["mesh_id"]: row["mesh"] for row in pairs}
