"""One Spark for all tests of the pipeline, and hubs whose logs are made without a server.

The folder's tests run in one process, as ``tests/conftest.py`` has it, so that one JVM serves them all.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from parley.pipeline.lake import Lake
from parley.pipeline.session import open_session
from tests.pipeline.sessions import FOR_SMALL_QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TIMEOUT_SECONDS = 600
"""A test that is cut off in the middle of a call to the JVM spoils the session for all that follow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The embedded Spark, started once; its data source is registered."""
    from parley.pipeline import register

    if "PYTEST_XDIST_WORKER" in os.environ:
        (tmp_path_factory.getbasetemp().parent / "spark").mkdir()  # fails in a second process
    session = open_session(settings=FOR_SMALL_QUERIES)
    register(session)
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake."""
    return Lake.open_or_create(tmp_path / "lake")
