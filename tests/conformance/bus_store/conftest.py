"""Each of the stores, and the file of the durable one."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from parley.bus import MemoryMeshStore, MeshStore, StoreBounds
from parley.bus.sqlite_store import SqliteMeshStore
from tests.conformance.bus_store.makers import open_store

MakeStore = Callable[[StoreBounds], MeshStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.db"


@pytest.fixture(params=["memory", "sqlite"])
async def make_store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[MakeStore]:
    """Makes the one store of a test, within the given bounds."""
    made: list[MeshStore] = []

    def make(bounds: StoreBounds) -> MeshStore:
        made.append(MemoryMeshStore(bounds) if request.param == "memory" else open_store(path, bounds=bounds))
        return made[-1]

    yield make
    for store in made:
        await store.close()


@pytest.fixture
async def store(make_store: MakeStore) -> MeshStore:
    return make_store(StoreBounds())


@pytest.fixture
async def durable(path: Path) -> AsyncIterator[SqliteMeshStore]:
    opened = open_store(path)
    yield opened
    await opened.close()
