"""Tables of the lake: what a commit promises, how a table grows, and how it is looked after."""

import datetime as dt
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from parley.core.pipeline_errors import LakeConflict, LakeInvalid, LakeNotFound, LakeTooNew
from parley.pipeline.ingest import cursor_name, ingest, write_range
from parley.pipeline.lake import (
    WHOLE,
    DataFile,
    Lake,
    Step,
    Table,
    commit,
    cursor,
    discard,
    maintain,
    partitions_of,
    read_table,
    register_views,
    stage,
    table_version,
)
from parley.pipeline.lake.catalogue import TABLES, find_table
from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX, EVENTS
from parley.pipeline.lake.commit import live_files, open_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.files import TableWriter
from parley.pipeline.lake.holdings import Holding, read_holdings
from parley.pipeline.lake.reading import bounds_meet
from parley.pipeline.report.checks import check_cursors
from parley.pipeline.rounds import Rounds
from parley.pipeline.session import DELTA_EXTENSION, reads_delta
from parley.pipeline.source.ranges import EventRange
from parley.workspace import discovery
from tests.pipeline.bronze import bronze_problems
from tests.pipeline.logs import append, make_hub

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTES = Table(
    layer="silver",
    name="notes",
    schema=pa.schema(
        [
            ("bucket", pa.int32()),
            ("id", pa.string()),
            ("text", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("event_id", pa.int64()),
        ]
    ),
    meaning="notes",
    partition_by=("bucket",),
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=dt.UTC)


def note(bucket: int | None, number: int, text: str = "hello") -> dict[str, Any]:
    return {"bucket": bucket, "id": f"n{number}", "text": text, "at": AT, "event_id": number}


def written(lake: Lake, *rows: dict[str, Any], table: Table = NOTES) -> list[DataFile]:
    with TableWriter(lake, table) as writer:
        writer.write(pa.RecordBatch.from_pylist(list(rows), schema=table.schema))
    return writer.files


def held(lake: Lake, table: Table = NOTES, version: int | None = None) -> list[tuple[Any, ...]]:
    rows = DeltaTable(lake.path(table), version=version).to_pyarrow_table().to_pylist()
    return sorted((row["bucket"], row["id"], row["text"]) for row in rows)


def test_a_commit_adds_files_and_moves_cursors_together(lake: Lake) -> None:
    files = written(lake, note(1, 1), note(2, 2), note(1, 3))
    assert [file.rows for file in sorted(files)] == [2, 1]
    assert cursor(lake, NOTES, "c") is None
    commit(lake, NOTES, files, cursors=[Step("c", None, 7)])
    assert held(lake) == [(1, "n1", "hello"), (1, "n3", "hello"), (2, "n2", "hello")]
    assert cursor(lake, NOTES, "c") == 7
    with pytest.raises(LakeConflict):
        commit(lake, NOTES, written(lake, note(1, 9)), cursors=[Step("c", 6, 8)])
    assert len(held(lake)) == 3


def test_cursors_move_without_files_and_nothing_at_all_is_no_commit(lake: Lake) -> None:
    version = table_version(lake, NOTES)
    assert commit(lake, NOTES, []) == version
    assert commit(lake, NOTES, [], cursors=[Step("c", None, 3)]) == version + 1
    assert read_cursors(lake, NOTES) == {"c": 3}
    assert read_cursors(lake, NOTES, version) == {}


def test_a_cursor_may_be_named_by_any_text(lake: Lake) -> None:
    commit(lake, NOTES, [], cursors=[Step("one\u2028two\x85three", None, 3)])
    assert read_cursors(lake, NOTES) == {"one\u2028two\x85three": 3}


def test_named_partitions_are_replaced_and_the_others_stay(lake: Lake) -> None:
    commit(lake, NOTES, written(lake, note(1, 1), note(2, 2), note(3, 3)))
    base = table_version(lake, NOTES)
    files = written(lake, note(1, 1, "new"), note(2, 22, "new"))
    commit(lake, NOTES, files, replace=partitions_of(files), base=base)
    assert held(lake) == [(1, "n1", "new"), (2, "n22", "new"), (3, "n3", "hello")]
    commit(lake, NOTES, [], replace=[{"bucket": "3"}])
    assert [row[0] for row in held(lake)] == [1, 2]
    commit(lake, NOTES, written(lake, note(5, 5)), replace=WHOLE)
    assert held(lake) == [(5, "n5", "hello")]
    assert len(held(lake, version=base)) == 3


def test_a_replaced_partition_that_changed_meanwhile_refuses_the_commit(lake: Lake) -> None:
    commit(lake, NOTES, written(lake, note(1, 1), note(2, 2)))
    base = table_version(lake, NOTES)
    commit(lake, NOTES, written(lake, note(2, 3)))
    ours = written(lake, note(1, 1, "new"))
    commit(lake, NOTES, ours, replace=partitions_of(ours), base=base)
    stale = written(lake, note(2, 2, "new"))
    with pytest.raises(LakeConflict):
        commit(lake, NOTES, stale, replace=partitions_of(stale), base=base)
    discard(lake, NOTES, [*stale, *ours])
    assert not (Path(lake.path(NOTES)) / stale[0].path).exists()
    assert held(lake) == [(1, "n1", "new"), (2, "n2", "hello"), (2, "n3", "hello")]


def test_a_partition_may_be_null_and_a_strange_name_is_refused(lake: Lake) -> None:
    commit(lake, NOTES, written(lake, note(None, 1), note(2, 2)))
    rows = DeltaTable(lake.path(NOTES)).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["bucket"] for row in rows} == {"n1": None, "n2": 2}
    with TableWriter(lake, NOTES) as writer, pytest.raises(LakeInvalid):
        writer.write_partition({"bucket": "../x"}, pa.RecordBatch.from_pylist([note(1, 1)], schema=NOTES.schema))


def test_what_fails_while_it_writes_leaves_no_file(lake: Lake) -> None:
    def fail() -> None:
        with TableWriter(lake, NOTES) as writer:
            writer.write(pa.RecordBatch.from_pylist([note(1, 1)], schema=NOTES.schema))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(Path(lake.path(NOTES)).rglob("*.parquet")) == []


def test_files_carry_statistics_by_which_readers_skip_them(lake: Lake) -> None:
    long = "x" * 1000
    files = written(lake, note(1, 5, long), note(1, 9, long))
    said = json.loads(files[0].statistics)
    assert said["numRecords"] == 2
    assert (said["minValues"]["event_id"], said["maxValues"]["event_id"]) == (5, 9)
    assert (said["minValues"]["at"], said["maxValues"]["at"]) == (
        "2026-01-02T03:04:05.123Z",
        "2026-01-02T03:04:05.124Z",
    )
    assert "text" not in said["minValues"]
    commit(lake, NOTES, files)
    (entry,) = live_files(open_table(lake, NOTES), WHOLE).values()
    assert bounds_meet(entry, "event_id", at_least=9)
    assert bounds_meet(entry, "event_id", at_most=5)
    assert not bounds_meet(entry, "event_id", at_least=10)
    assert not bounds_meet(entry, "event_id", at_most=4)
    assert bounds_meet(entry, "text", at_least="a")


def test_a_frame_is_staged_and_read_back(spark: "SparkSession", lake: Lake) -> None:
    frame = spark.createDataFrame(
        [(number, f"n{number}", number % 4) for number in range(100)], "event_id long, id string, bucket int"
    ).selectExpr("*", "'t' as text", "timestamp'2026-01-02 03:04:05Z' as at")
    files = stage(frame.repartition(2, "bucket"), lake, NOTES)
    assert sum(file.rows for file in files) == 100
    commit(lake, NOTES, files)
    back = read_table(spark, lake, NOTES)
    assert back.columns == NOTES.schema.names
    assert back.select(*frame.columns).exceptAll(frame).count() == 0
    assert back.count() == 100
    assert read_table(spark, lake, NOTES, partitions=[{"bucket": "1"}]).count() == 25
    assert read_table(spark, lake, NOTES, may_hold=lambda entry: False).count() == 0


def test_a_table_grows_by_columns_and_old_rows_have_nulls_there(spark: "SparkSession", lake: Lake) -> None:
    commit(lake, NOTES, written(lake, note(1, 1)))
    wider = Table(
        NOTES.layer,
        NOTES.name,
        pa.schema([*NOTES.schema, pa.field("mood", pa.string())]),
        NOTES.meaning,
        partition_by=NOTES.partition_by,
    )
    commit(lake, wider, written(lake, {**note(1, 2), "mood": "good"}, table=wider))
    commit(lake, NOTES, written(lake, note(1, 3)))  # an older Parley goes on writing what it knows
    rows = read_table(spark, lake, wider).select("id", "mood").collect()
    assert {row.id: row.mood for row in rows} == {"n1": None, "n2": "good", "n3": None}
    assert maintain.compact(lake, NOTES).files_after == 1
    again = read_table(spark, lake, wider).select("id", "mood").collect()
    assert {row.id: row.mood for row in again} == {"n1": None, "n2": "good", "n3": None}


def test_a_column_of_another_type_is_refused(lake: Lake) -> None:
    table_version(lake, NOTES)
    other = Table(NOTES.layer, NOTES.name, pa.schema([("bucket", pa.int32()), ("id", pa.int64())]), "", ("bucket",))
    with pytest.raises(LakeInvalid, match=r"silver_notes\.id"):
        table_version(lake, other)


def test_the_reader_of_the_delta_jars_is_taken_where_a_session_has_it(
    spark: "SparkSession", lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from parley.pipeline import session

    assert not reads_delta(spark)
    assert session._delta_jars() == []  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-spark_2.13-4.0.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    settings = session._settings("local", {})  # pyright: ignore[reportPrivateUsage]
    assert settings["spark.sql.extensions"] == DELTA_EXTENSION

    commit(lake, NOTES, written(lake, note(1, 1)))
    asked: list[Any] = []

    class Session:
        """What ``read_table`` asks of a session that has the jars; they are not here to be loaded."""

        conf = {"spark.sql.extensions": f"some.Other,{DELTA_EXTENSION}"}  # noqa: RUF012
        read = property(lambda self: self)

        def format(self, name: str) -> "Session":
            asked.append(name)
            return self

        def option(self, name: str, value: Any) -> "Session":
            asked.append((name, value))
            return self

        def load(self, path: str) -> str:
            asked.append(path)
            return "a frame"

    assert read_table(Session(), lake, NOTES) == "a frame"  # pyright: ignore[reportArgumentType]
    assert asked == ["delta", ("versionAsOf", 1), lake.path(NOTES)]


def test_small_files_are_put_together_hub_by_hub_and_day_by_day(
    spark: "SparkSession", lake: Lake, tmp_path: Path
) -> None:
    hubs = [make_hub(tmp_path / name) for name in ("a", "b")]
    for start in range(0, 200, 25):
        for name in ("a", "b"):
            append(discovery.at(tmp_path / name), range(start, start + 25))
        ingest(spark, lake, hubs)
    before = live_files(open_table(lake, EVENTS), WHOLE)
    assert len(before) == 16
    done = maintain.compact(lake, EVENTS)
    assert (done.files_before, done.files_after, done.left) == (16, 4, 0)
    after = live_files(open_table(lake, EVENTS), WHOLE).values()
    assert all(entry["min"]["db_id"] == entry["max"]["db_id"] for entry in after)
    assert bronze_problems(lake, hubs) == []
    assert maintain.compact(lake, EVENTS).files_before == 0
    assert ingest(spark, lake, hubs).events == 0


def test_a_restored_table_reads_again_what_was_taken_back(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    hub, other = make_hub(tmp_path / "hub", 30), make_hub(tmp_path / "other", 5)
    first = ingest(spark, lake, [hub]).version
    append(discovery.at(tmp_path / "hub"), range(30, 50))
    ingest(spark, lake, [hub, other])
    maintain.compact(lake, EVENTS)
    maintain.restore(lake, EVENTS, first)
    assert cursor(lake, EVENTS, cursor_name(hub.db_id)) == 30
    assert cursor(lake, EVENTS, cursor_name(other.db_id)) == 0
    assert bronze_problems(lake, [hub, other])
    assert ingest(spark, lake, [hub, other]).events == 25
    assert bronze_problems(lake, [hub, other]) == []
    operations = [entry["operation"] for entry in maintain.history(lake, EVENTS)]
    assert operations == ["ingest", "restore", "compact", "ingest", "ingest", "create table"]
    assert len(maintain.history(lake, EVENTS, 2)) == 2


def test_a_version_that_is_not_there_cannot_be_restored(lake: Lake) -> None:
    commit(lake, NOTES, written(lake, note(1, 1)))
    with pytest.raises(LakeNotFound):
        maintain.restore(lake, NOTES, 99)
    commit(lake, NOTES, [], replace=WHOLE)
    for path in Path(lake.path(NOTES)).rglob("*.parquet"):
        path.unlink()
    with pytest.raises(LakeNotFound, match="vacuumed"):
        maintain.restore(lake, NOTES, 1)


def test_vacuum_deletes_what_nobody_needs_and_leaves_what_a_run_may_still_commit(lake: Lake) -> None:
    gone, stays = written(lake, note(1, 1)), written(lake, note(2, 2))
    commit(lake, NOTES, [*gone, *stays])
    orphan, underway = (written(lake, note(3, number))[0] for number in (3, 4))
    root = Path(lake.path(NOTES))
    old = time.time() - 10 * 24 * 3600
    os.utime(root / orphan.path, (old, old))
    assert maintain.vacuum(lake, NOTES, days=7, dry_run=True) == [orphan.path]
    assert (root / orphan.path).exists()
    maintain.vacuum(lake, NOTES, days=7)
    assert not (root / orphan.path).exists()
    assert (root / underway.path).exists()
    assert len(held(lake)) == 2


def test_cursors_survive_a_checkpoint_of_the_log(lake: Lake) -> None:
    for number in range(1, 4):
        commit(lake, NOTES, [], cursors=[Step("c", number - 1 or None, number)])
    DeltaTable(lake.path(NOTES)).create_checkpoint()
    commit(lake, NOTES, written(lake, note(1, 1)), cursors=[Step("d", None, 9)])
    assert read_cursors(lake, NOTES) == {"c": 3, "d": 9}
    assert read_cursors(lake, NOTES, 2) == {"c": 2}


def test_polars_and_delta_rs_read_what_spark_reads(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", steps=60)
    ingest(spark, lake, [hub])
    columns = ["event_id", "name", "day", "data_json"]
    by_spark = sorted(tuple(row) for row in read_table(spark, lake, EVENTS).select(*columns).collect())
    by_polars = sorted(polars.read_delta(lake.path(EVENTS)).select(columns).rows())
    table = DeltaTable(lake.path(EVENTS)).to_pyarrow_table(columns=columns).to_pylist()
    assert by_spark == by_polars == sorted(tuple(row[column] for column in columns) for row in table)
    assert register_views(spark, lake) == ["bronze_events"]
    assert spark.sql("select count(*) as n from bronze_events").collect()[0].n == len(by_spark)


def test_every_table_of_the_catalogue_has_a_name_of_its_own_and_a_meaning() -> None:
    assert len({table.view for table in TABLES}) == len(TABLES)
    for table in TABLES:
        assert find_table(table.view) is table
        assert table.meaning
        assert {*table.partition_by, *filter(None, [table.cluster_by])} <= set(table.schema.names)
    with pytest.raises(LakeNotFound, match="bronze_events"):
        find_table("no_such_table")


def test_a_folder_that_is_no_lake_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound):
        Lake.open(tmp_path / "nowhere")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").touch()
    for way in (Lake.open, Lake.open_or_create):
        with pytest.raises(LakeInvalid):
            way(tmp_path / "pictures")
    made = Lake.open_or_create(tmp_path / "new")
    assert Lake.open(tmp_path / "new") == Lake.open_or_create(tmp_path / "new") == made
    (made.own / "lake.json").write_text('{"format": 3}')
    with pytest.raises(LakeTooNew):
        Lake.open(tmp_path / "new")
    (made.own / "lake.json").write_text("[]")
    with pytest.raises(LakeInvalid):
        Lake.open(tmp_path / "new")


@pytest.mark.parametrize("name", ["a%41", "what?", "a#b", "a\\b", "a\nb", "a\x7fb"])
def test_a_path_that_delta_would_take_for_another_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / name)
    for way in (Lake.open, Lake.open_or_create):
        for folder in (tmp_path / name / "lake", tmp_path / "link" / "lake"):
            with pytest.raises(LakeInvalid, match="cannot be a lake") as refused:
                way(folder)
            assert "--lake" in str(refused.value.hint)
    assert [each.name for each in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("name", ["50%", "a b", "naïve ☕", "[ab]{c}*", "it's", "a:b&c=d+e"])
def test_other_names_are_as_good_as_any(tmp_path: Path, name: str) -> None:
    lake = Lake.open_or_create(tmp_path / name)
    commit(lake, EVENTS, [], cursors=[Step("a cursor", None, 7)])
    assert cursor(lake, EVENTS, "a cursor") == 7
    assert len(maintain.history(lake, EVENTS)) == 2


def test_a_table_that_cannot_be_made_is_told_with_the_reason(lake: Lake) -> None:
    (Path(lake.root) / EVENTS.layer).touch()
    with pytest.raises(LakeInvalid, match="bronze_events cannot be made") as refused:
        table_version(lake, EVENTS)
    assert "written to" in str(refused.value.hint)


def test_spark_takes_the_path_of_a_lake_for_no_pattern(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.open_or_create(tmp_path / "[ab]{c}*")
    hub = make_hub(tmp_path / "hub", 3)
    ingest(spark, lake, [hub])
    assert read_table(spark, lake, EVENTS).count() == 3


def test_a_lake_whose_making_was_cut_short_is_made_on(tmp_path: Path) -> None:
    (tmp_path / "lake" / "_parley").mkdir(parents=True)
    assert Lake.open_or_create(tmp_path / "lake").own.joinpath("lake.json").is_file()


def test_bronze_is_held_against_its_cursors_by_its_log_alone(lake: Lake, tmp_path: Path) -> None:
    assert read_holdings(lake, CURSOR_PREFIX) == {}
    hub = make_hub(tmp_path / "hub", 250)
    ingest(_no_spark, lake, [hub], rounds=Rounds(first=100))
    assert read_holdings(lake, CURSOR_PREFIX) == {hub.db_id: Holding(250, 1, 250, 250)}
    assert check_cursors(lake).verdict == "ok"
    commit(lake, EVENTS, write_range(lake, EventRange(hub, 100, 110), 0).files)
    assert "260 rows for the 250 events" in check_cursors(lake).message
    assert check_cursors(lake).verdict == "error"
    append(discovery.at(tmp_path / "hub"), range(250, 260))
    commit(lake, EVENTS, write_range(lake, EventRange(hub, 250, 260), 0).files)
    assert "ends at event 260, where its cursor stands at 250" in check_cursors(lake).message


def test_a_hub_without_a_cursor_and_files_without_statistics_are_told(lake: Lake, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 10)
    table_version(lake, EVENTS)
    files = write_range(lake, EventRange(hub, 0, 10), 0).files
    commit(lake, EVENTS, files)
    assert check_cursors(lake).message == f"1 hub: {hub.db_id} has no cursor."
    commit(lake, EVENTS, [file._replace(statistics="{}") for file in write_range(lake, EventRange(hub, 0, 5), 0).files])
    assert check_cursors(lake).verdict == "unknown"


def _no_spark() -> Any:
    raise AssertionError("a round so small needs no Spark")
