"""All cursors of a table, at any of its versions.

delta-rs tells one cursor by its name. Who goes back to an earlier version has to know all of them, also those whose hub
is gone, so they are read from the log itself: from the last checkpoint before the version, and from what came after it.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from parley.pipeline.lake.commit import open_table
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table


def read_cursors(lake: Lake, table: Table, version: int | None = None) -> dict[str, int]:
    """Where each cursor stood at a version, or stands now."""
    log = Path(lake.path(table)) / "_delta_log"
    until = open_table(lake, table, version).version()
    checkpoints = (int(path.name.partition(".")[0]) for path in log.glob("*.checkpoint.parquet"))
    start = max((each for each in checkpoints if each <= until), default=-1)
    cursors: dict[str, int] = {}
    if start >= 0:
        rows: list[Any] = pq.read_table(log / f"{start:020d}.checkpoint.parquet", columns=["txn"]).to_pylist()
        cursors = {row["txn"]["appId"]: row["txn"]["version"] for row in rows if row["txn"] is not None}
    for number in range(start + 1, until + 1):
        for line in (log / f"{number:020d}.json").read_text(encoding="utf-8").split("\n"):  # JSON may hold U+2028
            if not line:
                continue
            moved: Any = json.loads(line).get("txn")
            if moved is not None:
                cursors[moved["appId"]] = moved["version"]
    return cursors
