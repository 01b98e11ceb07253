"""Hubs for the tests: one of its own where a test stops or counts, else one that the tests of a module share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.hubs import HubProcess


@pytest.fixture
def stopped_hub(tmp_path: Path) -> Iterator[HubProcess]:
    """A workspace's hub that was not started yet."""
    hub = HubProcess(tmp_path)
    try:
        yield hub
    finally:
        hub.kill()


@pytest.fixture
def hub(stopped_hub: HubProcess) -> HubProcess:
    """A running hub of an empty workspace."""
    return stopped_hub.start()


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A running hub whose log others may have begun; a test names its channels by ``hubs.fresh_name``."""
    hub = HubProcess(tmp_path_factory.mktemp("shared")).start()
    try:
        yield hub
    finally:
        hub.kill()
