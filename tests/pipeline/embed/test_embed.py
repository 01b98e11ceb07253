"""``embed``: a vector for each message as it is now, and the search among them."""

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pytest

from parley.core.ngrams import IDENTITY, embed_text
from parley.pipeline.embed.models import choose_model
from parley.pipeline.embed.run import EmbedReport, embed, introduce, nearest
from parley.pipeline.lake import Lake, maintain
from parley.pipeline.lake.catalogue.vectors import MODELS, VECTORS
from tests.pipeline.embed.embedders import LETTERS, written
from tests.pipeline.enrich.world import Workbench, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENTS = ["the migration of the users table fails", "the weather is nice", "users table migrated", "", "le chat"]
FINGERPRINT = "6f368c636d3fb84f"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "w", CONTENTS)


def counts(report: EmbedReport) -> tuple[int, int, int]:
    return report.due, report.done, report.failed


def test_each_message_gets_the_vector_of_its_text_once_and_again_when_it_changes(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    report = embed(spark, lake, bench.messages(spark), choose_model())
    assert (report.model, report.identity["dim"], *counts(report)) == (FINGERPRINT, 384, 5, 5, 0)
    rows = rows_of(spark, lake, VECTORS)
    assert [row["message_id"] for row in rows] == bench.ids
    assert {(row["model"], row["version"], row["error"]) for row in rows} == {(FINGERPRINT, 1, None)}
    packed = [struct.pack("<384f", *row["vector"]) for row in rows]
    assert packed == [struct.pack("<384f", *embed_text(content)) for content in CONTENTS]
    assert counts(embed(spark, lake, bench.messages(spark), choose_model())) == (0, 0, 0)
    with bench.rules() as world:
        world.edit(bench.ids[1], "the weather is bad")
        world.delete(bench.ids[4])
    assert counts(embed(spark, lake, bench.messages(spark), choose_model())) == (1, 1, 0)
    assert [(row["message_id"], row["version"]) for row in rows_of(spark, lake, VECTORS)][1:3] == [
        (bench.ids[1], 1),
        (bench.ids[1], 2),
    ]


def test_a_model_is_introduced_once_and_again_after_a_restore_took_it_back(lake: Lake) -> None:
    for _ in range(2):
        introduce(lake, choose_model())
        assert [row["fingerprint"] for row in _models(lake)] == [FINGERPRINT]
    maintain.restore(lake, MODELS, 0)
    assert _models(lake) == []
    introduce(lake, choose_model())
    assert [row["fingerprint"] for row in _models(lake)] == [FINGERPRINT]


def _models(lake: Lake) -> list[dict[str, Any]]:
    return polars.read_delta(lake.path(MODELS)).to_dicts()


def test_the_nearest_messages_are_those_of_now_most_alike_first(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    embed(spark, lake, bench.messages(spark), choose_model())
    with bench.rules() as world:
        world.delete(bench.ids[0])
    found = nearest(spark, lake, bench.messages(spark), "migrating the table of users", choose_model(), limit=2)
    rows = found.collect()
    assert [row.id for row in rows] == [bench.ids[2], bench.ids[1]]
    assert 1 > rows[0].likeness > rows[1].likeness
    assert rows[0].content_raw == CONTENTS[2]


def test_a_model_that_plugs_in_has_vectors_of_its_own_and_its_failures_stay_with_their_messages(
    spark: "SparkSession", lake: Lake, tmp_path: Path
) -> None:
    bench = Workbench(tmp_path / "w", ["aab", "crash", "b", "raise"])
    ours, letters = choose_model(), choose_model(written(tmp_path))
    embed(spark, lake, bench.messages(spark), ours)
    report = embed(spark, lake, bench.messages(spark), letters)
    assert counts(report) == (4, 4, 2)
    rows = [row for row in rows_of(spark, lake, VECTORS) if row["model"] == letters.fingerprint]
    assert [row["vector"] for row in rows] == [pytest.approx([0.8944272, 0.4472136]), None, [0.0, 1.0], None]
    assert "exit code 3" in rows[1]["error"]
    assert counts(embed(spark, lake, bench.messages(spark), letters)) == (0, 0, 0)
    mended = choose_model(written(tmp_path, LETTERS.replace('raise ValueError("no")', "text = 'a'")))
    assert counts(embed(spark, lake, bench.messages(spark), mended, retry_failed=True)) == (2, 2, 1)
    known = polars.read_delta(lake.path(MODELS)).sort("provider").to_dicts()
    assert [(row["provider"], row["fingerprint"]) for row in known] == [
        ("parley", FINGERPRINT),
        ("tests", letters.fingerprint),
    ]


def test_other_readers_of_delta_read_the_vectors(spark: "SparkSession", lake: Lake, bench: Workbench) -> None:
    embed(spark, lake, bench.messages(spark), choose_model(), chunk_messages=2)
    table = polars.read_delta(lake.path(VECTORS)).sort("message_id")
    assert table["message_id"].to_list() == bench.ids
    assert table["vector"].list.len().to_list() == [IDENTITY.dim] * 5
