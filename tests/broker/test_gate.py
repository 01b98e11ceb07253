"""The lanes from an event loop to a store that several threads may use."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from parley.broker import gate
from parley.broker.gate import LaneGate
from parley.broker.store import StoreMethods
from parley.broker.tx import Rule, Tx
from parley.core.errors import InternalError, InvalidInput, ServiceUnavailable, ShuttingDown
from parley.sqlite import Outcome


class SlowStore(StoreMethods):
    """Commits when it is let; remembers how many rules shared each commit."""

    def __init__(self) -> None:
        self.let = threading.Semaphore(0)
        self.sizes: list[int] = []

    def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]:
        self.let.acquire()
        self.sizes.append(len(rules))
        return [_outcome(rule) for rule in rules]


def _outcome(rule: Rule[Any]) -> Outcome[Any]:
    try:
        return Outcome(rule(None))  # type: ignore[arg-type]
    except InvalidInput as error:
        return Outcome(error=error)


def fail(_: Tx) -> None:
    raise InvalidInput("no")


async def test_what_waits_while_a_commit_is_under_way_shares_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_OTHER_THREADS", 1)
    store = SlowStore()
    lanes = LaneGate(store)  # type: ignore[arg-type]
    futures = [lanes.run(lambda _, number=number: number) for number in range(10)]
    failing = lanes.run(fail)
    store.let.release(20)
    assert await asyncio.gather(*futures) == list(range(10))
    with pytest.raises(InvalidInput):
        await failing
    assert sum(store.sizes) == 11
    assert len(store.sizes) <= 11
    await lanes.stop()
    with pytest.raises(ShuttingDown):
        lanes.run(fail)


async def test_a_queue_that_is_full_refuses_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "QUEUE_MAX", 0)
    lanes = LaneGate(SlowStore())  # type: ignore[arg-type]
    with pytest.raises(ServiceUnavailable):
        lanes.run(fail)
    await lanes.stop()


async def test_who_no_longer_waits_holds_nothing_up() -> None:
    store = SlowStore()
    lanes = LaneGate(store)  # type: ignore[arg-type]
    gone, kept = lanes.run(lambda _: 1), lanes.run(lambda _: 2)
    gone.cancel()
    store.let.release(5)
    assert await kept == 2
    await lanes.stop()


async def test_a_store_that_raises_leaves_nobody_waiting() -> None:
    class BrokenStore(SlowStore):
        def commit(self, rules: Sequence[Rule[Any]]) -> list[Outcome[Any]]:
            raise OSError("gone")

    lanes = LaneGate(BrokenStore())  # type: ignore[arg-type]
    with pytest.raises(InternalError):
        await lanes.run(fail)
    await lanes.stop()
