"""A bus under every kind of trouble: what was acknowledged is handled, and twice only if it says so."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.bus.flaws import FLAWS, Flaw
from tests.simulation.bus.world import BusWorld, Plan

WORLDS_A_TEST = 10
SEEDS = [range(first, first + WORLDS_A_TEST) for first in range(0, 30, WORLDS_A_TEST)]
OPERATIONS_A_TEST_MIN = 1_900
SEEDS_UNTIL_CAUGHT = 30
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """What goes wrong in a world is meant to."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_nothing_acknowledged_is_lost_doubled_or_forged(seeds: range, tmp_path: Path) -> None:
    operations = refused = 0
    for seed in seeds:
        world = BusWorld(seed, tmp_path)
        result = world.run()
        assert result.problems == [], seed
        assert result.crashes > 0, seed
        operations += result.operations
        refused += world.ledger.refused
    assert operations >= OPERATIONS_A_TEST_MIN
    assert refused > 0, "what was played back came to nobody"


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_a_bug_planted_in_the_bus_is_caught(flaw: Flaw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flaw(monkeypatch)
    reason = re.compile(FLAWS[flaw])
    found = (reason.search("\n".join(BusWorld(seed, tmp_path).run().problems)) for seed in range(SEEDS_UNTIL_CAUGHT))
    assert any(found), reason.pattern


def test_in_a_quiet_world_everything_said_is_delivered_and_handled_once(tmp_path: Path) -> None:
    """Without trouble nothing has to be repeated, so that whatever a world proves it proves of real messages."""
    world = BusWorld(2, tmp_path, Plan(trouble_seconds=10**6))
    result = world.run()
    assert result.problems == []
    assert result.crashes == 0
    accounts = world.ledger.accounts.values()
    assert len(accounts) == 4 * 2 * 14
    assert {tuple(each.outcomes) for each in accounts} == {("delivered",), ("answered",)}
    assert all(len(each.handlings) == 1 for each in accounts)
