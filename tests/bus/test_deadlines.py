"""One deadline for many answers."""

import asyncio

import pytest

from parley.bus.deadlines import Deadlines
from parley.core.bus_errors import NotAcknowledged


def answer() -> "asyncio.Future[int]":
    return asyncio.get_running_loop().create_future()


async def test_each_answer_fails_so_long_after_it_began_and_one_that_came_does_not() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(10)
    began = loop.time()
    first, second, third = answer(), answer(), answer()
    deadlines.begin(first)
    deadlines.begin(second)
    second.set_result(2)
    await asyncio.sleep(4)
    deadlines.begin(third)
    for each, seconds in ((first, 10), (third, 14)):
        with pytest.raises(NotAcknowledged):
            await each
        assert loop.time() == began + seconds
    assert await second == 2


async def test_after_it_was_stopped_nothing_fails() -> None:
    deadlines, waiting = Deadlines(10), answer()
    deadlines.begin(waiting)
    deadlines.stop()
    await asyncio.sleep(100)
    assert not waiting.done()
