"""Real files for the engine room's tests."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from parley.sqlite import open_writer
from tests.sqlite.rows import SCHEMA


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite3"


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    """A writer's connection to a file with the table ``row``."""
    opened = open_writer(path)
    opened.execute(SCHEMA)
    yield opened
    opened.close()
