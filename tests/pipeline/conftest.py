"""One Spark for all tests of the pipeline, and hubs whose logs are made without a server.

Every test that asks for ``spark`` is put into one group, so that with several test processes one JVM runs and not one
in each.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from parley.pipeline.lake import Lake
from parley.pipeline.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TIMEOUT_SECONDS = 600
"""A test that is cut off in the middle of a call to the JVM spoils the session for all that follow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The embedded Spark, started once; its data source is registered."""
    from parley.pipeline import register

    session = open_session(settings={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
    register(session)
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake."""
    return Lake.open_or_create(tmp_path / "lake")
