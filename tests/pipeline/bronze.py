"""What bronze holds, read without Spark, and whether that is what the logs hold."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from deltalake import DeltaTable

from parley.pipeline.hubs import HubRef
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.source.schema import LOG_COLUMNS
from tests.pipeline.logs import log_rows


def bronze_rows(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    """The events of each hub, in the order of their ids; one that is there twice is there twice."""
    held: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    if DeltaTable.is_deltatable(lake.path(EVENTS)):
        for row in DeltaTable(lake.path(EVENTS)).to_pyarrow_table().to_pylist():
            held[row["db_id"]].append(tuple(row[name] for name in LOG_COLUMNS))
    return {db_id: sorted(rows) for db_id, rows in held.items()}


def bronze_problems(lake: Lake, hubs: Iterable[HubRef]) -> list[str]:
    """Where bronze is not what the logs are: gaps, doubles, and rows that differ."""
    held = bronze_rows(lake)
    problems: list[str] = []
    for hub in hubs:
        assert hub.database is not None
        logged, found = log_rows(hub.database), held.get(hub.db_id, [])
        if found != logged:
            missing = {row[0] for row in logged} - {row[0] for row in found}
            doubled = len(found) - len({row[0] for row in found})
            problems.append(f"{hub.source}: {len(found)} of {len(logged)}, {len(missing)} missing, {doubled} doubled")
    return problems
