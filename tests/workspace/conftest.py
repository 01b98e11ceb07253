"""A prepared workspace, its writer's connection, and a place that cannot leak in from outside."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from parley.workspace.layout import Workspace
from tests.workspace.databases import new_workspace, prepared, writing


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return new_workspace(tmp_path)


@pytest.fixture
def connection(workspace: Workspace) -> Iterator[apsw.Connection]:
    """A prepared database with a full-text index."""
    with writing(workspace) as connection:
        prepared(connection, workspace)
        yield connection
