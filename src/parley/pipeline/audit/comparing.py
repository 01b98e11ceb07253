"""Replay equivalence: what the log adds up to, beside what the tables hold, row by row and column by column."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from parley.core.fold import TABLES
from parley.pipeline.audit.copies import HubCopy
from parley.pipeline.audit.findings import frame_of
from parley.pipeline.audit.stored import stored_table
from parley.pipeline.fold.canonical import canonical
from parley.pipeline.fold.payloads import JSON_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING: Final = "state.missing"
_UNEXPLAINED: Final = "state.unexplained"
_DIFFERS: Final = "state.differs"


def compare(spark: "SparkSession", folded: Mapping[str, DataFrame], copies: Sequence[HubCopy]) -> list[DataFrame]:
    """A search for each table."""
    return [_compare(spark, table, rows, copies) for table, rows in folded.items()]


def duplicates(attachments: DataFrame) -> DataFrame:
    """Attachments that a topic has twice, by the rule that keeps the hub from adding one again."""
    same = ("db_id", "topic_id", "kind", "of_key", "dedupe_key")
    rows = (
        attachments.withColumn("of_key", F.coalesce("key", F.lit("")))
        .groupBy(*same)
        .agg(F.count("*").alias("times"), F.min("id").alias("id"), F.max("id").alias("other"))
        .where("times > 1")
    )
    said = F.concat_ws(" ", F.col("id"), F.lit("and"), F.col("other"))
    return frame_of(rows, "attachment.twice", "topic_attachments", id=F.col("id"), expected=F.col("id"), found=said)


def _compare(spark: "SparkSession", table: str, folded: DataFrame, copies: Sequence[HubCopy]) -> DataFrame:
    key, columns = TABLES[table][0], TABLES[table]
    held = [copy for copy in copies if copy.columns[table]]
    stored = stored_table(spark, held, table)
    for column in JSON_COLUMNS.intersection(columns):
        stored = stored.withColumn(column, canonical(F.col(column)))
    log = folded.where(_in("db_id", [copy.db_id for copy in held])).select(
        "db_id", F.col(key).alias("id"), F.struct(*columns).alias("log"), "last_event_id"
    )
    row = stored.select("db_id", F.col(key).alias("id"), F.struct(*columns).alias("row"))
    both = log.join(row, ["db_id", "id"], "full").where(~F.col("log").eqNullSafe(F.col("row")))
    lacking = {column: [copy.db_id for copy in held if not _is_known(copy, table, column)] for column in columns}
    each = both.select("db_id", "id", "last_event_id", F.explode(_differences(columns, lacking)).alias("one"))
    each = _without_unknown(each, copies).select("db_id", "id", "last_event_id", "one.*")
    return frame_of(
        each,
        F.col("check"),
        table,
        id=F.col("id"),
        column=F.col("column"),
        event_id=F.col("last_event_id"),
        expected=F.col("expected"),
        found=F.col("found"),
    )


def _is_known(copy: HubCopy, table: str, column: str) -> bool:
    """Whether the file has the column, and the readable log determines it: which sources went to an archive that is
    missing, nobody knows."""
    return column in copy.columns[table] and (column != "source_message_id" or copy.begins_after == 0)


def _differences(columns: Sequence[str], lacking: Mapping[str, list[str]]) -> Column:
    """What there is to say of a row: that one side lacks it, or each column that differs."""
    no_log, no_row = F.col("log").isNull(), F.col("row").isNull()
    by_column = [
        F.when(
            ~F.col("log")[column].eqNullSafe(F.col("row")[column]) & ~_in("db_id", lacking[column]),
            _difference(_DIFFERS, column, _shown(F.col("log")[column]), _shown(F.col("row")[column])),
        )
        for column in columns
    ]
    return (
        F.when(no_log, F.array(_difference(_UNEXPLAINED, None, F.lit("nothing"), F.to_json("row"))))
        .when(no_row, F.array(_difference(_MISSING, None, F.to_json("log"), F.lit("nothing"))))
        .otherwise(F.array_compact(F.array(*by_column)))
    )


def _difference(check: str, column: str | None, expected: Column, found: Column) -> Column:
    return F.struct(
        F.lit(check).alias("check"),
        F.lit(column).cast("string").alias("column"),
        expected.alias("expected"),
        found.alias("found"),
    )


def _shown(value: Column) -> Column:
    return F.coalesce(value.cast("string"), F.lit("null"))


def _without_unknown(each: DataFrame, copies: Sequence[HubCopy]) -> DataFrame:
    """Of a hub whose archive is missing, rows from before it cannot be explained, and need not be."""
    truncated = [copy.db_id for copy in copies if copy.begins_after > 0]
    return each.where(~(_in("db_id", truncated) & (F.col("one.check") == _UNEXPLAINED)))


def _in(column: str, values: Sequence[str]) -> Column:
    return F.col(column).isin(*values) if values else F.lit(False)
