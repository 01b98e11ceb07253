"""The same on a cluster and through Spark Connect, from the data source to a committed table.

In small, in one JVM with two executors of its own beside it, and through a server; the campaign does it in full.
"""

from pathlib import Path

import pytest

from tests.pipeline.clusters import connect_server, smoke

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_cluster_of_two_workers(tmp_path: Path) -> None:
    assert smoke(tmp_path, "--master", "local-cluster[2,1,1024]") == []


def test_spark_connect(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    with connect_server(tmp_path / "spark") as remote:
        assert smoke(tmp_path, "--remote", remote) == []
