"""A hub's log is the same rows by every way: its file, the hub itself, Spark's batches and Spark's streams."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parley.core.errors import InvalidInput, ServiceUnavailable, WorkspaceNotFound
from parley.core.pipeline_errors import HubAmbiguous, LakeConflict
from parley.pipeline.hubs import TOKEN_VARIABLE, HubRef, find_hubs, hub_at, is_pattern
from parley.pipeline.source.datasource import PushingHubReader, admit
from parley.pipeline.source.files import readable_address
from parley.pipeline.source.ranges import Bounds, EventRange, pack, split
from parley.pipeline.source.reading import RangeReading, Taken, break_between, read_bounds, read_range
from parley.pipeline.source.schema import EVENT_SCHEMA
from parley.workspace import discovery
from tests.pipeline.logs import append, log_rows, make_hub
from tests.pipeline.serving import served
from tests.workspace.databases import new_workspace, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]


def rows_of(wanted: EventRange, **options: Any) -> Rows:
    batches = list(read_range(wanted, **options))
    assert all(batch.schema == EVENT_SCHEMA for batch in batches)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def logged(hub: HubRef, lo: int = 0, hi: int = 1 << 60) -> Rows:
    assert hub.database is not None
    return [(hub.db_id, *row) for row in log_rows(hub.database) if lo < row[0] <= hi]


def collected(frame: "DataFrame") -> Rows:
    return sorted((tuple(row) for row in frame.select(*EVENT_SCHEMA.names).collect()), key=lambda row: row[:2])


@pytest.fixture
def hub(tmp_path: Path) -> HubRef:
    return make_hub(tmp_path / "hub", steps=80)


def test_a_range_of_the_file_is_the_log_as_it_is_whatever_the_size_of_a_batch(hub: HubRef) -> None:
    bounds = read_bounds(hub)
    assert bounds.hi > 50
    for batch_rows in (1, 7, 20_000):
        assert rows_of(EventRange(hub, 0, bounds.hi), batch_rows=batch_rows) == logged(hub)
    assert rows_of(EventRange(hub, 10, 13)) == logged(hub, 10, 13)
    assert rows_of(EventRange(hub, 5, 5)) == []


def test_the_hub_itself_gives_the_same_rows_as_its_file(hub: HubRef, tmp_path: Path) -> None:
    whole = EventRange(hub, 0, read_bounds(hub).hi)
    from_file = rows_of(whole)
    with served(tmp_path / "hub", {"limits": {"page_max": 7}}) as url:
        remote = hub_at(url)
        assert (remote.db_id, read_bounds(remote)) == (hub.db_id, read_bounds(hub))
        for wanted in (EventRange(remote, 0, whole.hi), EventRange(remote, 10, 13)):
            assert rows_of(wanted, batch_rows=9) == from_file[wanted.lo : wanted.hi]
        names = ("message.created", "topic.created")
        assert rows_of(EventRange(remote, 0, whole.hi, names)) == rows_of(EventRange(hub, 0, whole.hi, names))


def test_spark_gives_the_same_rows_from_a_file_and_from_a_hub(
    spark: "SparkSession", hub: HubRef, tmp_path: Path
) -> None:
    reader = spark.read.format("parley_hub").option("events_per_partition", "20")
    assert collected(reader.option("workspaces", str(tmp_path / "hub")).load()) == logged(hub)
    with served(tmp_path / "hub") as url:
        token = tmp_path / "token"
        token.write_text(os.environ[TOKEN_VARIABLE] + "\n")
        remote = spark.read.format("parley_hub").option("hubs", url).option("token_file", str(token))
        assert collected(remote.load()) == logged(hub)


def test_spark_reads_many_hubs_by_a_pattern_and_one_frame_serves_many_queries(
    spark: "SparkSession", tmp_path: Path
) -> None:
    hubs = [make_hub(tmp_path / "hubs" / name, 60) for name in ("a", "b")]
    (tmp_path / "hubs" / "no hub").mkdir()
    reader = spark.read.format("parley_hub").option("workspaces", str(tmp_path / "hubs" / "*"))
    frame = reader.load()
    everything = sorted(row for hub in hubs for row in logged(hub))
    assert collected(frame) == everything
    question = f"db_id = '{hubs[0].db_id}' and event_id > 10 and event_id <= 20 and name = 'test.kind_1'"
    wanted = [row for row in logged(hubs[0], 10, 20) if row[3] == "test.kind_1"]
    assert collected(frame.where(question)) == wanted
    assert collected(frame) == everything
    assert collected(reader.option("push_filters", "true").load().where(question)) == wanted
    narrowed = spark.read.format("parley_hub").option("workspaces", str(tmp_path / "hubs" / "a"))
    narrowed = narrowed.option("after", "10").option("until", "20").option("names", "test.kind_1, test.kind_7")
    assert collected(narrowed.load()) == wanted


def test_a_pushed_filter_narrows_what_is_read(tmp_path: Path) -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual

    hubs = [make_hub(tmp_path / name, 60) for name in ("a", "b")]
    reader = PushingHubReader({"workspaces": f"{tmp_path / 'a'},{tmp_path / 'b'}"})
    filters = [
        In(("db_id",), (hubs[1].db_id, "no such hub")),
        GreaterThan(("event_id",), 10),
        LessThanOrEqual(("event_id",), 20),
        EqualTo(("name",), "test.kind_1"),
    ]
    assert list(reader.pushFilters(filters)) == filters
    (partition,) = reader.partitions()
    assert partition.ranges == (EventRange(hubs[1], 10, 20, ("test.kind_1",)),)


def test_a_stream_takes_what_is_new_in_admitted_amounts_and_goes_on_from_its_offset(
    spark: "SparkSession", tmp_path: Path
) -> None:
    hub = make_hub(tmp_path / "hub", 50)

    def run(to: str) -> int:
        reader = spark.readStream.format("parley_hub").option("workspaces", str(tmp_path / "hub"))
        stream = reader.option("events_per_trigger", "20").load().writeStream.format("parquet")
        query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(to)
        query.awaitTermination()
        return len([each for each in query.recentProgress if each["numInputRows"]])

    out = str(tmp_path / "out")
    assert run(out) == 3
    append(discovery.at(tmp_path / "hub"), range(50, 65))
    assert run(out) == 1
    assert collected(spark.read.parquet(out)) == logged(hub)


@pytest.mark.parametrize(
    ("most", "end"),
    [
        (None, {"a": 10, "b": 100, "c": 5}),
        (1000, {"a": 10, "b": 100, "c": 5}),
        (30, {"a": 10, "b": 20, "c": 5}),
        (2, {"a": 1, "b": 1, "c": 5}),
        (1, {"a": 1, "c": 5}),
    ],
)
def test_admission_is_shared_fairly_and_never_exceeds_its_limit(most: int | None, end: dict[str, int]) -> None:
    assert admit({"c": 5}, {"a": 10, "b": 100, "c": 5}, most) == end


def test_a_log_can_be_read_while_it_is_written_and_neither_waits(hub: HubRef, tmp_path: Path) -> None:
    before = logged(hub)
    reading: Iterator[Any] = iter(read_range(EventRange(hub, 0, len(before)), batch_rows=5))
    first = next(reading).num_rows
    append(discovery.at(tmp_path / "hub"), range(10))
    assert read_bounds(hub).hi == len(before) + 10
    assert first + sum(batch.num_rows for batch in reading) == len(before)


def test_a_file_on_a_read_only_mount_is_read_as_it_is_unless_commits_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = make_hub(tmp_path / "hub", 20)
    database = discovery.at(tmp_path / "hub").db
    assert readable_address(database).endswith("?mode=ro")

    from parley.pipeline.source import files
    from parley.sqlite import open_reader

    def as_read_only(path: Path, *, immutable_fallback: bool = True) -> Any:
        if not immutable_fallback:
            raise ServiceUnavailable("read-only", reason="cannot_open")
        return open_reader(path)

    monkeypatch.setattr(files, "open_reader", as_read_only)
    assert readable_address(database).endswith("?mode=ro&immutable=1")
    assert rows_of(EventRange(hub, 0, 20)) == logged(hub)


def test_a_file_is_read_at_one_moment_and_events_that_are_archived_after_it_are_there(tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 30)
    reading = read_range(EventRange(hub, 0, 30), batch_rows=10)
    first = next(reading).num_rows
    with writing(discovery.at(tmp_path / "hub")) as connection:
        connection.execute("INSERT INTO meta VALUES ('archive_in_progress', 'x')")
        connection.execute("DELETE FROM events WHERE event_id <= 5")
    assert first + sum(batch.num_rows for batch in reading) == 30
    assert read_bounds(hub) == Bounds(5, 30)
    with pytest.raises(LakeConflict, match="up to 5 were archived"):
        list(read_range(EventRange(hub, 0, 30)))


@pytest.mark.parametrize("batch_rows", [1, 7])
def test_a_reading_tells_what_the_log_held_and_which_event_the_range_follows(tmp_path: Path, batch_rows: int) -> None:
    hub = make_hub(tmp_path / "hub", 30)

    def taken(lo: int, hi: int) -> Taken:
        reading = RangeReading(EventRange(hub, lo, hi), batch_rows=batch_rows)
        list(reading)
        return reading.taken

    one, two = taken(0, 12), taken(12, 30)
    assert (one.held_lo, one.held_hi, one.rows, one.first, one.last) == (0, 30, 12, 1, 12)
    assert (one.before, two.before) == (None, one.ending)
    assert break_between(frozenset(), [one, two]) is None
    assert break_between(frozenset([str(two.ending)]), [taken(30, 30)]) is None
    assert break_between(frozenset(["another"]), [two]) == "event 12 is another one than before"
    assert break_between(frozenset(), [two, taken(20, 40)]) == "the log ended at event 30"
    with writing(discovery.at(tmp_path / "hub")) as connection:
        connection.execute("INSERT INTO meta VALUES ('archive_in_progress', 'x')")
        connection.execute("DELETE FROM events WHERE event_id BETWEEN 10 AND 14")
    assert break_between(frozenset(), [taken(0, 12), taken(12, 30)]) is None
    assert (taken(12, 30).rows, taken(12, 30).before) == (16, taken(0, 9).ending)


def test_a_hub_whose_log_is_exchanged_between_two_pages_is_noticed(tmp_path: Path) -> None:
    make_hub(tmp_path / "hub", 30)
    with served(tmp_path / "hub", {"limits": {"page_max": 7}}) as url:
        hub = hub_at(url)
        reading = read_range(EventRange(hub, 0, 30), batch_rows=5)
        next(reading)
        with writing(discovery.at(tmp_path / "hub")) as connection:
            connection.execute("DROP TRIGGER prevent_event_mutation")
            connection.execute("UPDATE events SET data_json = '{}'")
        with pytest.raises(LakeConflict, match="has another event 7 than a moment ago"):
            list(reading)


def test_events_that_are_archived_while_a_hub_is_asked_for_them_are_not_passed_over(tmp_path: Path) -> None:
    make_hub(tmp_path / "hub", 30)
    with served(tmp_path / "hub", {"limits": {"page_max": 7}}) as url:
        hub = hub_at(url)
        whole = EventRange(hub, 0, read_bounds(hub).hi)
        reading = read_range(whole, batch_rows=5)
        next(reading)
        with writing(discovery.at(tmp_path / "hub")) as connection:
            connection.execute("INSERT INTO meta VALUES ('archive_in_progress', 'x')")
            connection.execute("DELETE FROM events WHERE event_id <= 20")
        with pytest.raises(LakeConflict):
            list(reading)


def test_a_range_is_split_evenly_and_small_ones_are_packed_together(tmp_path: Path) -> None:
    hub = HubRef("x", "x")
    parts = list(split(EventRange(hub, 5, 1005), 300))
    assert [(part.lo, part.hi) for part in parts] == [(5, 255), (255, 505), (505, 755), (755, 1005)]
    assert list(split(EventRange(hub, 5, 5), 300)) == []
    small = [EventRange(hub, 0, 1000)] * 100
    assert [len(each) for each in pack(small, 28_000)] == [10] * 10
    assert pack([EventRange(hub, 0, 10**6)], 1000) == [(EventRange(hub, 0, 10**6),)]


def test_a_copied_workspace_is_refused_and_the_same_one_named_twice_is_one(tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "a")
    assert find_hubs([str(tmp_path / "a"), str(tmp_path / "*")]) == [hub]
    make_hub(tmp_path / "b")
    with writing(discovery.at(tmp_path / "b")) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'db_id'", (hub.db_id,))
    with pytest.raises(HubAmbiguous):
        find_hubs([str(tmp_path / "*")])


@pytest.mark.parametrize(
    "url", ["http://[::1", "nonsense", "http://", "ftp://host", "http://host:99999", "http://host:a", "http://a\nb"]
)
def test_an_address_that_can_be_none_is_said_before_anybody_is_asked(url: str) -> None:
    with pytest.raises(InvalidInput, match="not the address of a hub"):
        hub_at(url)


def test_a_folder_whose_name_is_like_a_pattern_is_a_name(tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "[ab]", 1)
    assert find_hubs([str(tmp_path / "[ab]")]) == [hub]
    assert (is_pattern(str(tmp_path / "[ab]")), is_pattern(str(tmp_path / "[cd]"))) == (False, True)


def test_a_pattern_passes_over_a_workspace_that_is_being_made_and_a_name_does_not(tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "a")
    new_workspace(tmp_path / "b").db.touch()
    assert find_hubs([str(tmp_path / "*")]) == [hub]
    with pytest.raises(ServiceUnavailable, match="no hub has prepared it yet"):
        find_hubs([str(tmp_path / "b")])


@pytest.mark.parametrize("name", ["nothing", "no*thing"])
def test_a_name_that_leads_to_no_workspace_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkspaceNotFound):
        find_hubs([str(tmp_path / name)])
