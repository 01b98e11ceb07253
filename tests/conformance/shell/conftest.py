from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.conformance.shell.servers import SERVERS, Served


@pytest.fixture(params=list(SERVERS))
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Served]:
    async with SERVERS[request.param](tmp_path) as server:
        yield server


@pytest.fixture(params=list(SERVERS))
async def limited(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Served]:
    async with SERVERS[request.param](tmp_path, limited=True) as server:
        yield server
