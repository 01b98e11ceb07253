"""What a life says of its parts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from parley.core.clock import SystemClock
from parley.core.exits import Exit
from parley.serve.life import Life
from parley.serve.server import HttpServer
from parley.serve.token import TokenStore


class Short(Life):
    """A life without a server, whose one part fails while it goes on."""

    def __init__(self, folder: Path, *, needed: bool) -> None:
        super().__init__(structlog.get_logger(), TokenStore(folder / "token", SystemClock(), 0), drain_seconds=1)
        self._needed = needed
        self._failing = asyncio.Event()

    def make(self) -> Sequence[HttpServer]:
        return []

    async def begin(self) -> None:
        self.run_beside(self._fail(), needed=self._needed)

    async def announce(self) -> None:
        await self._failing.wait()
        if not self._needed:
            self.stop("enough")

    async def fall_silent(self) -> None: ...

    async def give_back(self) -> None: ...

    async def _fail(self) -> None:
        self._failing.set()
        raise RuntimeError("out of sight")


@pytest.mark.parametrize("needed", [True, False])
async def test_a_part_that_fails_is_told_of_also_where_the_life_goes_on_without_it(
    tmp_path: Path, needed: bool
) -> None:
    with capture_logs() as logged:
        exit_code = await Short(tmp_path, needed=needed).run()
    assert [entry["exc_info"].args for entry in logged if entry["event"] == "part_failed"] == [("out of sight",)]
    assert exit_code == (Exit.ERROR if needed else Exit.OK)
