"""``enrich``: a plugin over history, in the sandbox, once per version and digest."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parley.core.clock import SystemClock
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline import pending
from parley.pipeline.enrich.plugins import choose
from parley.pipeline.enrich.run import EnrichReport, enrich
from parley.pipeline.lake import Lake, Step, commit
from parley.pipeline.lake.catalogue.vectors import PLUGIN_FINDINGS
from parley.pipeline.lake.files import DataFile
from tests.pipeline.enrich.world import SETTINGS, TICKETS, Workbench, messages_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "w", [f"see T-{number}" if number % 3 == 0 else "nothing" for number in range(12)])


def run(
    spark: "SparkSession", lake: Lake, *benches: Workbench, plugin: str = "tickets", **options: Any
) -> EnrichReport:
    hubs = [each.hub for each in benches]
    chosen = choose(hubs, plugin, SystemClock(), benches[0].home)
    return enrich(spark, lake, messages_of(spark, hubs), chosen, **options)


def counts(report: EnrichReport) -> tuple[int, int, int, int]:
    return report.due, report.done, report.found_in, report.failed


def test_every_message_is_looked_at_and_what_was_found_is_in_the_lake(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    told: list[tuple[int, int]] = []
    report = run(spark, lake, bench, progress=lambda done, due: told.append((done, due)))
    assert counts(report) == (12, 12, 4, 0)
    assert told[0] == (0, 12)
    assert told[-1] == (12, 12)
    rows = rows_of(spark, lake, PLUGIN_FINDINGS)
    assert [row["message_id"] for row in rows] == bench.ids
    assert {(row["plugin"], row["plugin_type"], row["version"]) for row in rows} == {("tickets", "linkifier", 1)}
    assert len({row["plugin_digest"] for row in rows}) == 1
    found = [json.loads(row["findings_json"] or "[]") for row in rows]
    assert found[3] == [{"kind": "ticket", "span": {"start": 4, "end": 7}, "data": {"number": 3}}]
    assert [bool(each) for each in found] == [number % 3 == 0 for number in range(12)]


def test_what_was_done_is_not_done_again_until_the_message_or_the_plugin_changes(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    run(spark, lake, bench)
    assert counts(run(spark, lake, bench)) == (0, 0, 0, 0)
    with bench.rules() as world:
        world.edit(bench.ids[1], "now T-99")
        world.delete(bench.ids[2])
    bench.post("one more, T-7")
    assert counts(run(spark, lake, bench)) == (2, 2, 2, 0)
    bench.write(module=TICKETS + "# changed\n")
    assert run(spark, lake, bench).done == 12


def test_a_message_that_the_plugin_fails_on_costs_itself_alone(
    spark: "SparkSession", lake: Lake, tmp_path: Path
) -> None:
    hasty = SETTINGS.replace("deadline_seconds = 60.0", "deadline_seconds = 15.0")
    contents = ["T-1", "hang", "T-2", "crash", "raise", "wrong", "T-3"]
    bench = Workbench(tmp_path / "w", contents, settings=hasty)
    report = run(spark, lake, bench)
    assert counts(report) == (7, 7, 3, 4)
    rows = {row["message_id"]: row for row in rows_of(spark, lake, PLUGIN_FINDINGS)}
    assert [rows[each]["failure"] for each in bench.ids] == [
        None, "timeout", None, "crash", "error", "invalid", None,
    ]  # fmt: skip
    assert "longer than its 15 s" in rows[bench.ids[1]]["error"]
    assert "ValueError: no" in rows[bench.ids[4]]["error"]
    assert rows[bench.ids[1]]["findings_json"] is None
    assert run(spark, lake, bench).due == 0
    assert counts(run(spark, lake, bench, retry_failed=True)) == (4, 4, 0, 4)


def test_since_takes_what_changed_after_an_event(spark: "SparkSession", lake: Lake, bench: Workbench) -> None:
    latest = messages_of(spark, [bench.hub]).agg({"last_event_id": "max"}).collect()[0][0]
    bench.post("T-1", "T-2")
    assert run(spark, lake, bench, since=latest).done == 2
    assert run(spark, lake, bench).done == 12


def test_work_is_committed_in_chunks_and_a_run_that_ends_in_between_is_gone_on_with(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    class Killed(Exception):
        pass

    def stop_after_the_first(done: int, due: int) -> None:
        if done:
            raise Killed

    with pytest.raises(Killed):
        run(spark, lake, bench, chunk_messages=3, progress=stop_after_the_first)
    kept = len(rows_of(spark, lake, PLUGIN_FINDINGS))
    assert 0 < kept < 12
    report = run(spark, lake, bench, chunk_messages=3)
    assert (report.done, report.commits > 1) == (12 - kept, True)
    assert [row["message_id"] for row in rows_of(spark, lake, PLUGIN_FINDINGS)] == bench.ids


def test_of_two_runs_at_once_each_message_is_in_the_table_once(
    spark: "SparkSession", lake: Lake, bench: Workbench
) -> None:
    others: list[EnrichReport] = []

    def another_run_meanwhile(done: int, due: int) -> None:
        if not others:
            others.append(EnrichReport())  # it tells of its own progress too
            others[0] = run(spark, lake, bench)

    report = run(spark, lake, bench, progress=another_run_meanwhile)
    assert (others[0].done, report.done, report.conflicts) == (12, 0, 1)
    assert [row["message_id"] for row in rows_of(spark, lake, PLUGIN_FINDINGS)] == bench.ids
    assert {str(path) for path in Path(lake.path(PLUGIN_FINDINGS)).glob("*.parquet")} == set(
        _live_paths(lake)
    )  # what was refused is removed


def _live_paths(lake: Lake) -> list[str]:
    from deltalake import DeltaTable

    return [path.removeprefix("file://") for path in DeltaTable(lake.path(PLUGIN_FINDINGS)).file_uris()]


def test_a_run_that_loses_every_time_gives_up(
    spark: "SparkSession", lake: Lake, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "CONFLICTS_MAX", 1)
    name = "parley.enrich.tickets"
    stands: list[int | None] = [None, 1]

    def another_commit(done: int, due: int) -> None:
        before = stands.pop(0)
        commit(lake, PLUGIN_FINDINGS, list[DataFile](), cursors=[Step(name, before, (before or 0) + 1)])

    with pytest.raises(LakeConflict):
        run(spark, lake, bench, progress=another_commit)
    assert rows_of(spark, lake, PLUGIN_FINDINGS) == []


class TestWhichRun:
    """A plugin is that of the workspace, and what it finds is of its type."""

    def test_each_workspace_runs_its_own_plugin(self, spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
        one = Workbench(tmp_path / "one", ["T-1"])
        other = Workbench(tmp_path / "other", ["T-1", "T-2"])
        bare = Workbench(tmp_path / "bare", ["T-1"], settings="")
        other.home = one.home
        other.write(module=TICKETS.replace("T-", "Q-"))
        assert counts(run(spark, lake, one, other, bare)) == (3, 3, 1, 0)
        assert len({row["plugin_digest"] for row in rows_of(spark, lake, PLUGIN_FINDINGS)}) == 2

    def test_a_built_in_needs_neither_settings_nor_trust(
        self, spark: "SparkSession", lake: Lake, tmp_path: Path
    ) -> None:
        bench = Workbench(tmp_path / "w", ["see src/app.py:120", "nothing"], settings="")
        assert counts(run(spark, lake, bench, plugin="links")) == (2, 2, 1, 0)

    def test_attachments_of_an_extractor_are_findings_too(
        self, spark: "SparkSession", lake: Lake, bench: Workbench
    ) -> None:
        assert run(spark, lake, bench, plugin="notes").found_in == 4
        row = rows_of(spark, lake, PLUGIN_FINDINGS)[0]
        assert row["plugin_type"] == "extractor"
        (found,) = json.loads(row["findings_json"])
        assert (found["kind"], found["value_json"]) == ("ticket", {"number": 0})
        assert "source_message_id" not in found
