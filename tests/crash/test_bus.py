"""The campaign on real agents of a bus, in small and without namespaces, and at each step."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.campaign.bus.hosts import hosts
from tests.campaign.bus.run import Agent, bus_kills, judge, settle, until

SEED = 20261119


@pytest.mark.timeout(600)
async def test_kill_9_of_agents_loses_nothing_and_repeats_only_what_it_marks(tmp_path: Path) -> None:
    report = await bus_kills(tmp_path, kills=4, messages=160, seed=SEED, namespaces=False)
    assert report.violations == []
    assert report.facts["messages"] == 160
    assert report.control, "an agent that forgets what it accepted must be found"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("step", "marks"),
    [
        ("before=admit", [False]),
        ("after=admit", [True]),  # its handler was about to be called, which counts as a call
        ("before=dispatched", [False, True]),
        ("after=dispatched", [False]),
    ],
)
async def test_a_recipient_killed_at_any_step_from_admission_to_removal_has_each_message(
    tmp_path: Path, step: str, marks: list[bool]
) -> None:
    with hosts(tmp_path, 2, namespaces=False) as made:
        one, other = Agent(made[0]), Agent(made[1], step)
        await asyncio.gather(one.start(), other.start())
        try:
            one.say(other.host, "hello")
            (name,) = one.unsaid
            assert await other.died() == -signal.SIGKILL
            other.flaw = ""
            await other.start()
            await until(lambda: not one.unsaid and len(other.handled()) == 2 * len(marks))
            assert await settle([one, other]) == []
        finally:
            await asyncio.gather(one.kill(), other.kill())
        began = [line for line in other.handled() if line[0] == "began"]
        assert [line[2] for line in began] == marks
        assert judge({name: (one.host.agent, other.host.agent, "hello")}, [one, other]) == []
