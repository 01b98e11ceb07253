"""Workspaces for the tests of the tools, with and without a hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.app.make import make_workspace
from parley.app.stop import stop_hub
from parley.workspace import discovery
from tests.client.hubs import HubProcess


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A workspace without a hub. One that a test starts is stopped."""
    make_workspace(tmp_path)
    yield tmp_path
    stop_hub(discovery.at(tmp_path), 30)


@pytest.fixture
def hub(root: Path) -> Iterator[HubProcess]:
    """A running hub of an empty workspace."""
    hub = HubProcess(root).start()
    try:
        yield hub
    finally:
        hub.kill()
