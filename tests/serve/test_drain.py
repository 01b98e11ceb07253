"""Requests in flight at a stop: none new, and those that began are waited for."""

import asyncio

import pytest

from parley.core.errors import ShuttingDown
from parley.serve import InFlight

DEADLINE_SECONDS = 30.0


async def test_with_nothing_in_flight_the_wait_is_over_at_once() -> None:
    assert await InFlight().wait_empty(0)


async def test_the_wait_ends_with_the_last_request() -> None:
    in_flight = InFlight()
    in_flight.begin()
    in_flight.begin()
    waiting = asyncio.create_task(in_flight.wait_empty(DEADLINE_SECONDS))
    await asyncio.sleep(0)
    in_flight.end()
    await asyncio.sleep(0)
    assert not waiting.done()
    in_flight.end()
    assert await waiting
    assert in_flight.count == 0


async def test_a_request_that_does_not_end_in_time_is_told() -> None:
    in_flight = InFlight()
    in_flight.begin()
    assert not await in_flight.wait_empty(0)
    in_flight.end()
    assert await in_flight.wait_empty(0)


async def test_several_may_wait_and_wait_again() -> None:
    in_flight = InFlight()
    for _ in range(2):
        in_flight.begin()
        waiting = [asyncio.create_task(in_flight.wait_empty(DEADLINE_SECONDS)) for _ in range(3)]
        await asyncio.sleep(0)
        in_flight.end()
        assert await asyncio.gather(*waiting) == [True] * 3


async def test_once_closing_nothing_new_begins_and_what_began_still_ends() -> None:
    in_flight = InFlight()
    in_flight.begin()
    in_flight.close()
    assert in_flight.closing
    with pytest.raises(ShuttingDown):
        in_flight.begin()
    assert in_flight.count == 1
    in_flight.end()
    assert await in_flight.wait_empty(0)
