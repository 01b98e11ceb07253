"""Reading tables: exactly the files that make up a version, by Spark's own Parquet reader.

No jar is needed for that. Where a session was set up with the Delta jars, the same tables are read through them. Files
that cannot hold what is asked for are left out before Spark hears of them, by the statistics in the log; what remains
is still to be filtered by the caller.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.pipeline.lake.catalogue import TABLES
from parley.pipeline.lake.commit import WHOLE, exists, live_files, open_table
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table
from parley.pipeline.session import LITERAL_PATHS, reads_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FileTest = Callable[[Mapping[str, Any]], bool]
"""Whether a file can hold what is asked for. It is given what the log says of it: ``min``, ``max``, ``partition``."""


def read_table(
    spark: "SparkSession",
    lake: Lake,
    table: Table,
    *,
    version: int | None = None,
    partitions: Collection[Mapping[str, str]] | None = None,
    may_hold: FileTest | None = None,
    with_files: bool = False,
) -> "DataFrame":
    """The table as a frame, at a version or at its newest.

    ``partitions`` and ``may_hold`` leave out files; the frame may still have rows that were not asked for. With
    ``with_files``, ``_metadata`` tells of each row in which file it is. Raises ``LakeNotFound`` if nothing was
    committed to the table yet.
    """
    found = open_table(lake, table, version)
    if reads_delta(spark) and partitions is None and may_hold is None:
        return spark.read.format("delta").option("versionAsOf", found.version()).load(lake.path(table))
    entries = live_files(found, WHOLE if partitions is None else partitions)
    paths = [path for path, entry in entries.items() if may_hold is None or may_hold(entry)]
    schema = spark_schema(found.schema())
    if not paths:
        return _empty(spark, schema)  # has no _metadata: nobody asks where no row is
    root = Path(lake.path(table))
    reader = spark.read.schema(schema).options(basePath=str(root), **LITERAL_PATHS)
    rows = reader.parquet(*(str(root / path) for path in paths))
    return rows.select(*schema.names, *(["_metadata"] if with_files else []))


def _empty(spark: "SparkSession", schema: "StructType") -> "DataFrame":
    """No rows. A list without any would start workers."""
    from pyspark.sql import functions as F

    return spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))


def register_views(spark: "SparkSession", lake: Lake) -> list[str]:
    """Gives every table of the lake its name in SQL, as it is now. Returns the names."""
    names: list[str] = []
    for table in TABLES:
        if exists(lake, table):
            read_table(spark, lake, table).createOrReplaceTempView(table.view)
            names.append(table.view)
    return names


def bounds_meet(entry: Mapping[str, Any], column: str, *, at_least: Any = None, at_most: Any = None) -> bool:
    """Whether the file may hold a value of the column in these bounds, as far as its statistics tell."""
    lows: dict[str, Any] = entry["min"] or {}
    highs: dict[str, Any] = entry["max"] or {}
    low, high = lows.get(column), highs.get(column)
    if at_least is not None and high is not None and high < at_least:
        return False
    return at_most is None or low is None or low <= at_most


def spark_schema(schema: Any) -> "StructType":
    """A Delta schema in Spark's types."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema(schema.to_arrow()))
