"""Hub processes that end with their test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.lifecycle.processes import HubProcess


@pytest.fixture
def make_process(tmp_path: Path) -> Iterator[Callable[..., HubProcess]]:
    """Makes the hub of a workspace, not started yet; ``config`` is the text of its ``parley.toml``."""
    made: list[HubProcess] = []

    def make(config: str = "", root: Path = tmp_path / "work") -> HubProcess:
        made.append(HubProcess(root, config))
        return made[-1]

    yield make
    for process in made:
        process.kill()


@pytest.fixture
def hub(make_process: Callable[..., HubProcess]) -> HubProcess:
    return make_process()
