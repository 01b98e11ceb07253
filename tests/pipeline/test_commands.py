"""The commands that fill, ask and look after the lake, as a user calls them."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parley.core.pipeline_errors import PipelineNotInstalled, SparkFailed
from parley.pipeline.hubs import hub_of_workspace
from parley.pipeline.lake import Lake
from parley.workspace import discovery
from tests.cli.conftest import Parley, parley
from tests.pipeline.bronze import bronze_problems, bronze_rows
from tests.pipeline.logs import append, make_hub

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["parley"]
DEADLINE_SECONDS = 120.0


def test_a_workspace_is_taken_into_the_lake_beside_it_without_starting_spark(parley: Parley, tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hub", 40)
    done = parley("pipeline", "ingest", "--workspace", tmp_path / "hub", "--json")
    assert done.code == 0
    lake = Lake.open(tmp_path / "hub" / ".parley" / "lake")
    said = done.json
    assert (said["lake"], said["events"], said["cursors"]) == (lake.root, 40, {hub.db_id: 40})
    assert bronze_problems(lake, [hub]) == []
    assert "starting Spark" not in done.stderr
    again = parley("--workspace", tmp_path / "hub", "pipeline", "ingest")
    assert (again.code, again.stdout) == (0, f"0 new events are in {lake.root}.\n")


def test_many_workspaces_are_named_by_a_pattern_and_need_a_lake_of_their_own(parley: Parley, tmp_path: Path) -> None:
    hubs = [make_hub(tmp_path / "hubs" / name, 10) for name in ("a", "b")]
    for pattern in (str(tmp_path / "hubs" / name) for name in ("*", "?", "[ab]")):
        refused = parley("pipeline", "ingest", "-w", pattern, "--json")
        assert (refused.code, refused.json["code"]) == (1, "INVALID_INPUT")
        assert "Name the lake" in refused.json["error"]
    assert parley("pipeline", "ingest", "-w", pattern, "--lake", tmp_path / "lake").code == 0
    assert bronze_problems(Lake.open(tmp_path / "lake"), hubs) == []


def test_a_table_has_a_history_is_compacted_restored_and_vacuumed(parley: Parley, tmp_path: Path) -> None:
    make_hub(tmp_path / "hub", 10)
    place = ("--workspace", tmp_path / "hub", "--json")
    first = parley("pipeline", "ingest", *place).json["version"]
    append(discovery.at(tmp_path / "hub"), range(10, 20))
    parley("pipeline", "ingest", *place)
    compacted = parley("pipeline", "compact", *place).json["tables"]["bronze_events"]
    assert compacted == {"files_before": 2, "files_after": 1, "left": 0}
    versions = parley("pipeline", "history", "bronze_events", *place).json["versions"]
    assert [each["operation"] for each in versions] == ["compact", "ingest", "ingest", "create table"]
    restored = parley("pipeline", "restore", "bronze_events", "--version", str(first), *place).json
    assert restored["version"] == versions[0]["version"] + 1
    assert parley("pipeline", "ingest", *place).json["events"] == 10
    vacuumed = parley("pipeline", "vacuum", "--table", "bronze_events", "--dry-run", *place).json
    assert (vacuumed["retention_days"], vacuumed["files"]) == (7.0, {"bronze_events": 0})


def test_the_lake_is_asked_in_sql(parley: Parley, spark: "SparkSession", tmp_path: Path) -> None:
    make_hub(tmp_path / "hub", 6)
    place = ("--workspace", tmp_path / "hub")
    parley("pipeline", "ingest", *place)
    query = "select name, count(*) as n, max(struct(event_id, ts)) as last from bronze_events group by name order by 1"
    answer = parley("pipeline", "sql", query, *place, "--json").json
    assert answer["columns"] == ["name", "n", "last"]
    assert [row[:2] for row in answer["rows"]] == [["test.kind_0", 3], ["test.kind_1", 3]]
    assert answer["rows"][0][2]["event_id"] == 5
    table = "select name, count(*) as n from bronze_events group by name order by name"
    assert parley("pipeline", "sql", table, *place).stdout == "test.kind_0\t3\ntest.kind_1\t3\n"
    assert (
        parley("pipeline", "sql", table, *place, "--format", "csv", "--limit", "1").stdout == "name,n\ntest.kind_0,3\n"
    )
    odd = "select double('nan') as a, -double('inf') as b, map('x', array(1, 2)) as c, 'it''s' as d"
    assert parley("pipeline", "sql", odd, *place, "--json").json["rows"] == [
        ["NaN", "-Infinity", {"x": [1, 2]}, "it's"]
    ]
    csv = parley("pipeline", "sql", odd, *place, "--format", "csv").stdout
    assert csv == 'a,b,c,d\nNaN,-Infinity,"{""x"": [1, 2]}",it\'s\n'
    refused = parley("pipeline", "sql", "select nme from bronze_events", *place, "--json")
    assert (refused.code, refused.json["code"]) == (1, "INVALID_INPUT")
    assert refused.json["details"]["tables"] == ["bronze_events"]
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ingest", "--workspace", "nowhere"], "WORKSPACE_NOT_FOUND"),
        (["ingest", "--workspace", "hub", "--lake", "pictures"], "LAKE_INVALID"),
        (["ingest", "--workspace", "hub", "--lake", "newer"], "SCHEMA_TOO_NEW"),
        (["history", "bronze_events", "--lake", "nowhere"], "LAKE_NOT_FOUND"),
        (["history", "bronze_events", "--lake", "empty"], "LAKE_NOT_FOUND"),
        (["history", "no_table", "--lake", "empty"], "LAKE_NOT_FOUND"),
        (["sql", "select 1", "--lake", "nowhere"], "LAKE_NOT_FOUND"),
        (["sql", "select 1", "--lake", "empty", "--master", "a", "--remote", "b"], "INVALID_INPUT"),
        (["run", "--workspace", "hub", "--out", "nowhere/report.html"], "INVALID_INPUT"),
        (["report", "--lake", "empty", "--out", "pictures"], "INVALID_INPUT"),
        (["vacuum", "--lake", "empty", "--days", "nan"], "INVALID_INPUT"),
        (["vacuum", "--lake", "empty", "--days", "inf"], "INVALID_INPUT"),
        (["vacuum", "--lake", "empty", "--days", "1e300"], "INVALID_INPUT"),
        (["ingest", "--workspace", "hub", "--watch", "--every", "nan"], "INVALID_INPUT"),
        (["restore", "bronze_events", "--lake", "empty", "--version", "9" * 20], "INVALID_INPUT"),
        (["history", "bronze_events", "--lake", "empty", "--limit", "9" * 20], "INVALID_INPUT"),
        (["ingest", "--hub", "http://127.0.0.1:1", "--lake", "empty"], "HUB_NOT_RUNNING"),
        (["ingest", "--hub", "http://127.0.0.1:1", "--lake", "empty", "--token-file", "nowhere"], "INVALID_AUTH"),
    ],
)
def test_what_is_wrong_is_said_with_a_code(
    parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str
) -> None:
    make_hub(tmp_path / "hub", 1)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").touch()
    Lake.open_or_create(tmp_path / "empty")
    newer = Lake.open_or_create(tmp_path / "newer")
    (newer.own / "lake.json").write_text('{"format": 99}')
    monkeypatch.chdir(tmp_path)
    refused = parley("pipeline", *arguments, "--json")
    assert refused.code != 0
    assert (refused.json["code"], bool(refused.json["hint"])) == (code, True)


def test_without_the_extra_the_command_that_installs_it_is_named(
    parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("parley.app.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    refused = parley("pipeline", "ingest", "--workspace", tmp_path, "--json")
    assert (refused.code, refused.json["code"]) == (1, PipelineNotInstalled.code)
    assert "pip install" in refused.json["hint"]


def test_a_hub_that_was_restored_or_archived_is_named_as_a_problem(parley: Parley, tmp_path: Path) -> None:
    make_hub(tmp_path / "hub", 20)
    place = ("--workspace", tmp_path / "hub")
    parley("pipeline", "ingest", *place)
    from tests.workspace.databases import writing

    with writing(discovery.at(tmp_path / "hub")) as connection:
        connection.execute("INSERT INTO meta VALUES ('archive_in_progress', 'x')")
        connection.execute("DELETE FROM events WHERE event_id > 15")
    before = bronze_rows(Lake.open(tmp_path / "hub" / ".parley" / "lake"))
    restored = parley("pipeline", "ingest", *place, "--json")
    assert (restored.code, restored.json["events"]) == (0, 0)
    assert "was restored: what came after event 15" in restored.json["problems"][0]
    after = bronze_rows(Lake.open(tmp_path / "hub" / ".parley" / "lake"))
    assert after == {db_id: rows[:15] for db_id, rows in before.items()}
    append(discovery.at(tmp_path / "hub"), range(20, 40))
    with writing(discovery.at(tmp_path / "hub")) as connection:
        connection.execute("DELETE FROM events WHERE event_id <= 25")
    assert "Problem: events 16 to 25 of" in parley("pipeline", "ingest", *place).stderr


@pytest.mark.timeout(3 * DEADLINE_SECONDS)
def test_a_watch_takes_what_comes_and_ends_in_order_when_it_is_asked_to(tmp_path: Path) -> None:
    hub = make_hub(tmp_path / "hubs" / "a", 10)
    lake = tmp_path / "lake"
    arguments = ("--watch", "--every", "0.1", "-w", str(tmp_path / "hubs" / "*"), "--lake", str(lake), "--json")
    watching = subprocess.Popen(
        [sys.executable, "-m", "parley", "pipeline", "ingest", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _until(
            watching,
            lambda: (lake / "_parley" / "lake.json").exists() and bronze_problems(Lake.open(lake), [hub]) == [],
        )
        append(discovery.at(tmp_path / "hubs" / "a"), range(10, 25))
        make_hub(tmp_path / "made", 5)  # elsewhere, as a workspace never has two identities one after the other
        later = hub_of_workspace((tmp_path / "made").rename(tmp_path / "hubs" / "b"))
        _until(watching, lambda: bronze_problems(Lake.open(lake), [hub, later]) == [])
        watching.send_signal(signal.SIGTERM)
        said, _ = watching.communicate(timeout=DEADLINE_SECONDS)
    finally:
        watching.kill()
        watching.communicate()
    assert watching.returncode == 0
    report = json.loads(said)
    assert (report["events"], report["cursors"]) == (30, {hub.db_id: 25, later.db_id: 5})


def _until(watching: "subprocess.Popen[str]", holds: Any) -> None:
    import threading
    import time

    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert watching.poll() is None, watching.communicate()
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def test_what_spark_says_is_cut_to_the_line_that_matters() -> None:
    from parley.app.pipeline.opening import spark_failed

    said = (
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 3, in take\n    raise ServiceUnavailable()\n'
        "parley.core.errors.ServiceUnavailable: db.sqlite3 is busy\n\n"
        "\tat org.apache.spark.Thing.run(Thing.scala:3)\n"
    )
    failed = spark_failed(RuntimeError(said))
    assert isinstance(failed, SparkFailed)
    assert str(failed) == "parley.core.errors.ServiceUnavailable: db.sqlite3 is busy"
    assert str(spark_failed(RuntimeError("No master\n\tat x"))) == "No master"
