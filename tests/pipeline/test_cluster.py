"""The same on a cluster and through Spark Connect, from the data source to a committed table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from parley.pipeline.lake import Lake
from tests.pipeline.bronze import bronze_problems
from tests.pipeline.clusters import connect_server, standalone
from tests.pipeline.logs import log_rows, make_hub

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS = 60


def smoke(folder: Path, *options: str) -> None:
    hubs = [make_hub(folder / "hubs" / name, steps=STEPS) for name in ("a", "b")]
    logged = sum(len(log_rows(str(hub.database))) for hub in hubs)
    argv = [sys.executable, "-m", "tests.pipeline.smoke", str(folder), *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["read"], found["ingested"], found["by_sql"]) == (logged, logged, logged)
    assert found["messages"] > 0
    assert Path(found["report"]).is_file()
    assert bronze_problems(Lake.open(folder / "lake"), hubs) == []


def test_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    with standalone(tmp_path / "spark") as master:
        smoke(tmp_path, "--master", master)


def test_spark_connect(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    with connect_server(tmp_path / "spark") as remote:
        smoke(tmp_path, "--remote", remote)
