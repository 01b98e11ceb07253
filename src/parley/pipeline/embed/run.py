"""``parley pipeline embed``: a vector for every message that has none at its version yet, and the search among them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from parley.core.clock import Clock, SystemClock
from parley.core.errors import PluginFailed
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.embed.models import Model
from parley.pipeline.lake import Lake, Step, commit, cursor, discard, read_table, table_version
from parley.pipeline.lake.catalogue.vectors import MODELS, VECTORS
from parley.pipeline.lake.files import DataFile, TableWriter, Task, tell
from parley.pipeline.pending import Progress, Work, work_through

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE: Final = 1_024
NEAREST_DEFAULT: Final = 10


@dataclass(slots=True)
class EmbedReport:
    """What a run has done. Messages that had their vector are counted nowhere."""

    model: str
    """The fingerprint."""
    identity: dict[str, Any]
    due: int = 0
    done: int = 0
    failed: int = 0
    commits: int = 0
    conflicts: int = 0


def embed(
    spark: "SparkSession",
    lake: Lake,
    messages: "DataFrame",
    model: Model,
    *,
    retry_failed: bool = False,
    clock: Clock | None = None,
    progress: Progress = lambda done, due: None,
    chunk_messages: int | None = None,
) -> EmbedReport:
    """Embeds the messages as they are now, those of ``silver_messages``, and keeps their vectors.

    What failed before is left alone unless ``retry_failed`` asks for it.
    """
    clock = clock or SystemClock()
    fingerprint = model.fingerprint
    report = EmbedReport(fingerprint, asdict(model.identity))
    table_version(lake, VECTORS)  # makes the table, so that it can be asked what is done
    introduce(lake, model)

    def due() -> "DataFrame":
        return _due(spark, lake, messages, fingerprint, retry_failed)

    def count(files: list[DataFile]) -> None:
        report.failed += sum(file.rows - int(json.loads(file.statistics)["nullCount"]["error"]) for file in files)

    work = Work(VECTORS, f"parley.embed.{fingerprint}", due, embedding(lake, model, clock), "embed")
    done = work_through(spark, lake, work, progress=progress, each=count, chunk_messages=chunk_messages)
    report.due, report.done, report.commits, report.conflicts = done.due, done.done, done.commits, done.conflicts
    return report


def embedding(lake: Lake, model: Model, clock: Clock) -> Task:
    """A task that embeds messages and writes their vectors to files of the table."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with TableWriter(lake, VECTORS) as writer, model.opened() as embed_texts:
            for batch in batches:
                for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                    part = batch.slice(start, ROWS_AT_ONCE)
                    found = embed_texts(part.column("content_raw").to_pylist())
                    writer.write(_rows(part, found, model.fingerprint, clock.now_ms()))
        yield from tell(writer.files)

    return run


def nearest(
    spark: "SparkSession",
    lake: Lake,
    messages: "DataFrame",
    text: str,
    model: Model,
    *,
    limit: int = NEAREST_DEFAULT,
) -> "DataFrame":
    """The messages, as they are now, whose vectors are nearest to that of a text, most alike first.

    They have all columns of ``messages`` and ``likeness``, from -1 to 1. Every vector is looked at: there is no index.
    Raises ``PluginFailed`` if the model fails on the text.
    """
    from pyspark.sql import functions as F

    with model.opened() as embed_texts:
        ((asked, problem),) = embed_texts([text])
    if problem is not None:
        raise PluginFailed(f"The text cannot be embedded: {problem}", reason="error")
    query = F.array(*(F.lit(float(number)) for number in asked))
    products = F.zip_with("vector", query, lambda one, other: one * other)
    likeness = F.aggregate(products, F.lit(0.0), lambda total, each: total + each)
    vectors = read_table(spark, lake, VECTORS).where((F.col("model") == model.fingerprint) & F.col("error").isNull())
    now = messages.where("deleted_at IS NULL")
    found = vectors.select("db_id", F.col("message_id").alias("id"), "version", likeness.alias("likeness"))
    return now.join(found, ["db_id", "id", "version"]).orderBy(F.desc("likeness"), "db_id", "id").limit(limit)


def _due(spark: "SparkSession", lake: Lake, messages: "DataFrame", fingerprint: str, retry_failed: bool) -> "DataFrame":
    from pyspark.sql import functions as F

    done = read_table(spark, lake, VECTORS).where(F.col("model") == fingerprint)
    if retry_failed:
        done = done.where("error IS NULL")
    keys = done.select("db_id", F.col("message_id").alias("id"), "version")
    live = messages.where("deleted_at IS NULL").select("db_id", "id", "version", "content_raw")
    return live.join(keys, ["db_id", "id", "version"], "left_anti")


def _rows(messages: pa.RecordBatch, found: list[tuple[Any, str | None]], model: str, now_ms: int) -> pa.RecordBatch:
    rows = messages.num_rows
    columns: dict[str, Any] = {
        "db_id": messages.column("db_id"),
        "message_id": messages.column("id"),
        "version": messages.column("version"),
        "model": pa.repeat(pa.scalar(model, pa.string()), rows),
        "vector": pa.array([vector for vector, _ in found], pa.list_(pa.float32())),
        "error": pa.array([error for _, error in found], pa.string()),
        "embedded_at": pa.repeat(pa.scalar(now_ms * 1000, pa.timestamp("us", tz="UTC")), rows),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in VECTORS.schema.names], names=VECTORS.schema.names)


def introduce(lake: Lake, model: Model) -> None:
    """Says in the lake what the fingerprint stands for, once."""
    name = f"parley.model.{model.fingerprint}"
    stands = cursor(lake, MODELS, name)
    if stands:  # a table that was restored to before it has 0 there
        return
    row = {"fingerprint": model.fingerprint, **asdict(model.identity)}
    with TableWriter(lake, MODELS) as writer:
        writer.write(pa.RecordBatch.from_pylist([row], MODELS.schema))
    try:
        commit(lake, MODELS, writer.files, cursors=[Step(name, stands, 1)], about={"parley": "embed"})
    except LakeConflict:  # another run has just said it
        discard(lake, MODELS, writer.files)
