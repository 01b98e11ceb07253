"""A hub of its own for each test that asks for one; every process ends with its test."""

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
