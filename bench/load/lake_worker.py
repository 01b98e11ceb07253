"""A process that does the pipeline's work when it is told to, so that its memory and time can be watched from outside.

    python -m bench.load.lake_worker WORKSPACE           commands on stdin, as JSON: ["ingest", LAKE], build, gold, …
    python -m bench.load.lake_worker --duckdb LAKE OUT   the same fold in DuckDB, over the same files
    python -m bench.load.lake_worker --python WORKSPACE  the pure fold over the log

Each answers with JSON lines: what was done and the seconds it took, without the start of the process.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.core.limits import TOMBSTONE

CHECKSUM = "count(*), sum(version), sum(length(content_raw)), count(deleted_at)"
"""What the folds must agree on."""
_FOLD = """
COPY (
    WITH folded AS (
        SELECT db_id, entity_id AS id,
            arg_max(data_json, event_id) FILTER (name = 'message.created') AS created,
            arg_max({'name': name, 'ts': ts, 'data_json': data_json}, event_id)
                FILTER (name IN ('message.edited', 'message.deleted')) AS content,
            arg_max({'ts': ts, 'data_json': data_json}, event_id) FILTER (name = 'message.deleted') AS deleted,
            arg_max(data_json, event_id) FILTER (name = 'message.moved_topic') AS moved,
            arg_max(data_json, event_id) FILTER (name <> 'message.created') AS change,
            max(event_id) AS last_event_id
        FROM read_parquet($files, hive_partitioning = true)
        WHERE name IN ('message.created', 'message.edited', 'message.deleted', 'message.moved_topic')
        GROUP BY ALL
    ), parsed AS (
        SELECT *, json_extract_string(created, ['$.message.topic_id', '$.message.channel_id', '$.message.sender',
            '$.message.content_raw', '$.message.created_at', '$.message.reply_to']) AS made
        FROM folded WHERE created IS NOT NULL
    )
    SELECT db_id, id,
        coalesce(moved->>'$.new_topic_id', made[1]) AS topic_id,
        made[2] AS channel_id,
        made[3] AS sender,
        CASE WHEN content IS NULL THEN made[4]
            WHEN content.name = 'message.deleted' THEN '[deleted]'
            ELSE content.data_json->>'$.new_content' END AS content_raw,
        coalesce(CAST(change->>'$.version' AS BIGINT), 1) AS version,
        made[5] AS created_at,
        content.ts AS edited_at,
        deleted.ts AS deleted_at,
        deleted.data_json->>'$.deleted_by' AS deleted_by,
        made[6] AS reply_to,
        last_event_id
    FROM parsed
) TO '{out}' (FORMAT parquet, COMPRESSION zstd)
"""


def main() -> int:
    if sys.argv[1] == "--duckdb":
        _say("fold", _duckdb(Path(sys.argv[2]), Path(sys.argv[3])))
    elif sys.argv[1] == "--python":
        _say("fold", _python(Path(sys.argv[2])))
    else:
        _serve(Path(sys.argv[1]))
    return 0


def _serve(folder: Path) -> None:
    """One session for all commands, as one run of the pipeline has."""
    started = time.perf_counter()
    from parley.pipeline.lake import Lake
    from parley.pipeline.session import open_session

    spark = open_session()
    spark.range(1).count()
    _say("start", {"seconds": time.perf_counter() - started})
    work = _Work(spark, folder)
    commands: dict[str, Callable[[Lake], dict[str, Any]]] = {
        "ingest": work.ingest,
        "build": work.build,
        "gold": work.gold,
        "fold": work.fold,
        "audit": work.audit,
        "enrich": work.enrich,
    }
    for line in sys.stdin:
        name, place = json.loads(line)
        begun = time.perf_counter()
        result = commands[name](Lake.open_or_create(Path(place)))
        _say(name, {"seconds": time.perf_counter() - begun, **result})
    spark.stop()


class _Work:
    def __init__(self, spark: Any, folder: Path) -> None:
        from parley.pipeline.hubs import find_hubs

        self._spark = spark
        self._hubs = find_hubs([str(folder)])

    def ingest(self, lake: Any) -> dict[str, Any]:
        from parley.pipeline.ingest import ingest

        return {"events": ingest(self._spark, lake, self._hubs).events}

    def build(self, lake: Any) -> dict[str, Any]:
        from parley.pipeline.silver import build_silver

        return {"tables": len(build_silver(self._spark, lake).tables)}

    def gold(self, lake: Any) -> dict[str, Any]:
        from parley.core.settings import PipelineSettings
        from parley.pipeline.gold.building import build_gold

        return {"tables": len(build_gold(self._spark, lake, PipelineSettings()).tables)}

    def fold(self, lake: Any) -> dict[str, Any]:
        """The messages alone, from bronze to one set of Parquet files, with what a build looks up beforehand."""
        from parley.pipeline.fold import Facts, messages, read_archives
        from parley.pipeline.lake.catalogue.bronze import EVENTS
        from parley.pipeline.lake.reading import read_table
        from parley.pipeline.silver.reading import bronze_marks, truncated_hubs

        out = f"{lake.root}-fold"
        begun = time.perf_counter()
        events = read_table(self._spark, lake, EVENTS)
        facts = Facts(read_archives(events), truncated_hubs(self._spark, lake, bronze_marks(lake)))
        messages(events, facts).write.mode("overwrite").option("compression", "zstd").parquet(out)
        seconds = time.perf_counter() - begun
        (row,) = self._spark.read.parquet(out).selectExpr(*CHECKSUM.split(", ")).collect()
        return {"seconds": seconds, "checksum": list(row)}

    def audit(self, lake: Any) -> dict[str, Any]:
        from parley.pipeline.audit.run import audit

        return {"damaged": audit(self._spark, self._hubs, lake=lake).damaged}

    def enrich(self, lake: Any) -> dict[str, Any]:
        """The built-in linkifier over all messages, each in its sandbox."""
        from parley.core.clock import SystemClock
        from parley.pipeline.enrich.plugins import choose
        from parley.pipeline.enrich.run import enrich
        from parley.pipeline.lake.catalogue.silver import MESSAGES
        from parley.pipeline.lake.reading import read_table

        chosen = choose(self._hubs, "links", SystemClock())
        report = enrich(self._spark, lake, read_table(self._spark, lake, MESSAGES), chosen)
        return {"messages": report.done, "failed": report.failed}


def _duckdb(lake_folder: Path, out: Path) -> dict[str, Any]:
    from parley.pipeline.lake import Lake
    from parley.pipeline.lake.catalogue.bronze import EVENTS
    from parley.pipeline.lake.commit import WHOLE, live_files, open_table

    lake = Lake.open(lake_folder)
    root = Path(lake.path(EVENTS))
    files = [str(root / path) for path in live_files(open_table(lake, EVENTS), WHOLE)]
    duckdb: Any = importlib.import_module("duckdb")  # installed for measuring alone
    with duckdb.connect() as connection:
        begun, cpu = time.perf_counter(), time.process_time()
        connection.execute(_FOLD.replace("{out}", str(out)).replace("'[deleted]'", f"'{TOMBSTONE}'"), {"files": files})
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        row = connection.execute(f"SELECT {CHECKSUM} FROM read_parquet('{out}')").fetchall()[0]
    return {"seconds": seconds, "cpu_seconds": cpu, "checksum": [int(value) for value in row]}


def _python(folder: Path) -> dict[str, Any]:
    from parley.core.fold import fold
    from parley.workspace import discovery, queries
    from parley.workspace.reading import open_reading

    with open_reading(discovery.at(folder)) as reading:
        begun, cpu = time.perf_counter(), time.process_time()
        state = fold(queries.logged_events(reading.connection))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    rows = state.messages.values()
    checksum = [
        len(rows),
        sum(row["version"] for row in rows),
        sum(len(row["content_raw"]) for row in rows),
        sum(row["deleted_at"] is not None for row in rows),
    ]
    return {"seconds": seconds, "cpu_seconds": cpu, "checksum": checksum}


def _say(name: str, result: dict[str, Any]) -> None:
    print(json.dumps({"did": name, **result}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
