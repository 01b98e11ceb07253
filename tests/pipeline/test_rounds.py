"""A commit takes as much as keeps every core at work, and no more files than the driver can hold."""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

import pytest

from parley.pipeline.hubs import HubRef
from parley.pipeline.ingest import HubPlan, divide
from parley.pipeline.rounds import GROWTH, ROUND_FILES, TASKS_PER_CORE, Rounds
from parley.pipeline.source.ranges import RANGE_EVENTS

ROUNDS = Rounds()


class Planned(NamedTuple):
    """What a round of a run would be."""

    events: int
    tasks: int
    files: int


def planned(cores: int, *, files_per_task: int = 1, rounds: Rounds = ROUNDS) -> Iterator[Planned]:
    """The rounds of a run over a log without end."""
    size = rounds.first
    while True:
        tasks = divide([HubPlan(HubRef("h", "h"), 0, 0, size)], rounds.task)
        yield Planned(size, len(tasks), len(tasks) * files_per_task)
        size = rounds.following(size, len(tasks) * files_per_task, cores)


@pytest.mark.parametrize(("cores", "rounds_until"), [(1, 0), (2, 0), (8, 1), (20, 2), (200, 4), (1_000, 5)])
def test_after_a_few_rounds_every_core_has_tasks(cores: int, rounds_until: int) -> None:
    made = list(islice(planned(cores), rounds_until + 3))
    assert [each.tasks for each in made[rounds_until:]] == [max(cores, 2) * TASKS_PER_CORE] * 3
    for one, next_one in pairwise(made):
        assert one.events <= next_one.events <= one.events * GROWTH


def test_two_cores_and_one_take_what_the_first_round_takes() -> None:
    assert {each.events for cores in (1, 2) for each in islice(planned(cores), 5)} == {8 * RANGE_EVENTS}


def test_many_days_in_few_events_keep_a_commit_small() -> None:
    made = list(islice(planned(200, files_per_task=365), 9))
    assert max(each.files for each in made) < ROUND_FILES + 365
    assert made[-1].tasks == -(-ROUND_FILES // 365)
    assert {each.tasks for each in islice(planned(200, files_per_task=ROUND_FILES), 9)} == {8}


def test_small_hubs_share_tasks_in_a_large_round() -> None:
    hubs = [HubPlan(HubRef(str(number), "h"), 0, 0, 1_000) for number in range(10_000)]
    tasks = divide(hubs, RANGE_EVENTS)
    assert sum(map(len, tasks)) == len(hubs)
    assert max(map(len, tasks)) < 100 < len(tasks)
