"""The deadline that is moved all the time."""

import asyncio

from parley.bus.watchdog import Watchdog


async def test_it_barks_once_nobody_has_fed_it_for_so_long() -> None:
    loop = asyncio.get_running_loop()
    barked: list[float] = []
    watchdog = Watchdog(10, lambda: barked.append(loop.time()))
    await asyncio.sleep(100)
    assert barked == []
    began = loop.time()
    for _ in range(5):
        watchdog.feed()
        await asyncio.sleep(9)
    await asyncio.sleep(100)
    assert barked == [began + 4 * 9 + 10]


async def test_it_does_not_bark_while_it_is_paused_or_after_it_was_stopped() -> None:
    barked: list[float] = []
    watchdog = Watchdog(10, lambda: barked.append(1))
    watchdog.feed()
    watchdog.pause()
    await asyncio.sleep(100)
    watchdog.feed()
    watchdog.stop()
    watchdog.stop()
    await asyncio.sleep(100)
    assert barked == []
