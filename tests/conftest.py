"""What holds for every test: no setting of the machine leaks in, and no property test is judged by clock or luck.

A property test tries the same examples each time, so that a change is judged by what it changes; with
``--hypothesis-profile=explore`` it tries others.

With several processes, one runs all tests that share a Spark, so that one JVM runs and not one in each. Groups that
marks name do not reach the scheduler of pytest-xdist 3.8 under pytest 9.2, so the path of a test decides.

A line for each HTTP request would bury what a failing test has to say.
"""

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from tests.postgres import Server, private_server

WITH_SPARK = ("tests/pipeline/",)
WITHOUT_SPARK = (
    "tests/pipeline/brokers/",
    "tests/pipeline/audit/test_checks.py",
    "tests/pipeline/embed/test_ngrams.py",
    "tests/pipeline/embed/test_session.py",
    "tests/pipeline/enrich/test_plugins.py",
    "tests/pipeline/gold/test_building.py",
    "tests/pipeline/report/test_page.py",
    "tests/pipeline/silver/test_inline.py",
    "tests/pipeline/test_java.py",
    "tests/pipeline/test_cluster.py",
    "tests/pipeline/test_rounds.py",
    "tests/pipeline/test_session.py",
)
"""What of it needs none, or starts one of its own in other processes."""

settings.register_profile("explore", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("parley", settings.get_profile("explore"), derandomize=True)
settings.load_profile("parley")

for library in ("httpx", "httpx2"):
    logging.getLogger(library).setLevel(logging.WARNING)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PARLEY_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A private PostgreSQL, started when a test first asks for it."""
    with private_server() as server:
        yield server


class _OneProcessWithSpark(LoadGroupScheduling):
    """The largest group is given out first, so the longest way begins at once."""

    def _split_scope(self, nodeid: str) -> str:
        with_spark = nodeid.startswith(WITH_SPARK) and not nodeid.startswith(WITHOUT_SPARK)
        return "spark" if with_spark else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadGroupScheduling | None:
    return _OneProcessWithSpark(config, log) if config.getvalue("dist") == "loadgroup" else None
