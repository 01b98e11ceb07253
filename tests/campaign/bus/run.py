"""Real agents in real processes are killed with SIGKILL while they publish, and their links are cut, slow and restored.

A message whose sender died before it told what became of it is said again under its id. In the end each was handled, or
its sender tells of it; twice only in another process and marked as redelivered.
"""

import asyncio
import json
import random
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.campaign.bus.agent import HANDLED, SLOW
from tests.campaign.bus.hosts import Host, has_namespaces, hosts
from tests.campaign.report import Report

ROOT: Final = Path(__file__).parents[3]
UNDER_WAY: Final = 60
"""Messages of which nobody has told what became of them, at a time."""
LINK_EVERY: Final = 20
"""Kills between two troubles of a link."""
SETTLE_SECONDS: Final = 900.0
LOOK_SECONDS: Final = 0.5
START_SECONDS: Final = 60.0


class Agent:
    """One machine's process, again and again."""

    def __init__(self, host: Host, flaw: str = "") -> None:
        self.host = host
        self.unsaid: dict[str, dict[str, Any]] = {}
        """What was asked and not answered, by id."""
        self.outcomes: Counter[str] = Counter()
        self.outcome_of: dict[str, str] = {}
        self.rest: dict[str, Any] | None = None
        self.flaw = flaw
        """What its next process does otherwise."""
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        command = [*self.host.prefix, sys.executable, "-m", "tests.campaign.bus.agent", str(self.host.folder)]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            *self.host.where,
            *([self.flaw] if self.flaw else []),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            if not await self._process.stdout.readline():
                raise RuntimeError(f"the agent in {self.host.folder} ended with {await self._process.wait()}")
        self._reading = asyncio.create_task(self._read(self._process.stdout))
        for asked in list(self.unsaid.values()):
            self._tell(asked)

    async def died(self) -> int:
        """How its process has ended, of itself."""
        assert self._process is not None
        assert self._reading is not None
        async with asyncio.timeout(START_SECONDS):
            await self._reading
            return await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL; what it said before that is read."""
        assert self._process is not None
        assert self._reading is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._reading
        await self._process.wait()

    def say(self, to: Host, body: str) -> None:
        asked = {"do": "say", "to": to.agent, "id": secrets.token_hex(16), "body": body}
        self.unsaid[asked["id"]] = asked
        self._tell(asked)

    def look(self) -> None:
        """Asks for what has not come to rest."""
        self.rest = None
        self._tell({"do": "rest"})

    def handled(self) -> list[tuple[str, int, bool, str, str, str]]:
        path = self.host.folder / HANDLED
        return [tuple(json.loads(line)) for line in path.read_bytes().splitlines()] if path.exists() else []

    def _tell(self, asked: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            told = json.loads(line)
            if told["do"] == "rest":
                self.rest = told
                continue
            asked = self.unsaid.get(told["id"])
            if asked is not None and told["outcome"] == "failed":
                self._tell(asked)  # until somebody has it
            elif asked is not None:
                del self.unsaid[told["id"]]
                self.outcomes[told["outcome"]] += 1
                self.outcome_of[told["id"]] = told["outcome"]


class Town(NamedTuple):
    """How it went with machines that were killed and links that were cut."""

    asked: dict[str, tuple[str, str, str]]
    """Who said what to whom, by id."""
    agents: list[Agent]
    links: Counter[str]
    problems: list[str]


async def bus_kills(folder: Path, *, kills: int, messages: int, seed: int, namespaces: bool | None = None) -> Report:
    """Control: agents that forget what they accepted and did not handle."""
    report = Report("bus", seed)
    lan = has_namespaces() if namespaces is None else namespaces
    town = await _town(folder / "town", kills, messages, random.Random(seed), lan=lan)
    agents = town.agents
    report.runs = kills
    report.violations = town.problems or judge(town.asked, agents)
    again = sum(len({line[1] for line in lines}) > 1 for lines in _by_message(agents).values())
    report.facts = {
        "messages": len(town.asked),
        "namespaces": lan,
        "links": dict(town.links) if lan else {},
        "outcomes": dict(sum((each.outcomes for each in agents), Counter[str]())),
        "handled_in_two_lives": again,
    }
    report.control = await _control(folder / "control", forgetful=True)
    if await _control(folder / "careful", forgetful=False):
        report.violations.append("a message that a kill interrupted was not handled again")
    return report


async def _town(folder: Path, kills: int, messages: int, rng: random.Random, *, lan: bool) -> Town:
    asked: dict[str, tuple[str, str, str]] = {}
    links = Counter[str]()
    with hosts(folder, 3, namespaces=lan) as made:
        agents = [Agent(each) for each in made]
        await asyncio.gather(*(each.start() for each in agents))
        try:
            await _meet(agents)
            for kill in range(kills):
                if kill % LINK_EVERY == 0:
                    links[_trouble(rng, made)] += 1
                for number in range(messages * kill // kills, messages * (kill + 1) // kills):
                    await until(lambda: sum(len(each.unsaid) for each in agents) < UNDER_WAY)
                    sender, to = rng.sample(agents, 2)
                    before = {*sender.unsaid}
                    sender.say(to.host, f"{number}")
                    (name,) = {*sender.unsaid} - before
                    asked[name] = (sender.host.agent, to.host.agent, f"{number}")
                    await asyncio.sleep(0)
                victim = rng.choice(agents)
                await asyncio.sleep(rng.uniform(0, 0.05))  # the moment of a kill is any moment
                await victim.kill()
                await victim.start()
            for host in made:
                host.restore()
            return Town(asked, agents, links, await settle(agents))
        finally:
            await asyncio.gather(*(each.kill() for each in agents))


def _trouble(rng: random.Random, made: list[Host]) -> str:
    """A link is cut, slow or whole until the next trouble. What was done."""
    for host in made:
        host.restore()
    host, kind = rng.choice(made), rng.choice(("cut", "slow", "whole"))
    if kind == "cut":
        host.cut()
    return kind if kind != "slow" else f"slow by {host.delay(rng.choice((20, 200))) or 'nothing'}"


async def _meet(agents: list[Agent]) -> None:
    """Everybody has everybody's key, so that something can wait for each."""
    for sender in agents:
        for other in agents:
            if other is not sender:
                sender.say(other.host, "hello")
    await until(lambda: not any(each.unsaid for each in agents))


async def settle(agents: list[Agent]) -> list[str]:
    async def is_quiet() -> bool:
        for each in agents:
            each.look()
        await until(lambda: all(each.rest is not None for each in agents))
        rests = [each.rest or {} for each in agents]
        return not any(each.unsaid for each in agents) and not any(r["unsent"] + r["unhandled"] for r in rests)

    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            while not await is_quiet():  # noqa: ASYNC110 - an agent comes to rest without a word
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return [f"never came to rest: {each.rest} and {len(each.unsaid)} to say" for each in agents]
    return []


def judge(asked: dict[str, tuple[str, str, str]], agents: list[Agent]) -> list[str]:
    found = _by_message(agents)
    told = {name for each in agents for name in (each.rest or {}).get("told", ())}
    problems = [
        f"{name} ({body}) was never handled, and nobody tells of it"
        for name, (_, _, body) in asked.items()
        if name not in told and not any(step == "returned" for step, *_ in found.get(name, ()))
    ]
    for name, lines in found.items():
        began = [line for line in lines if line[0] == "began"]
        problems += [f"{name} was handled again and it is not marked" for line in began[1:] if not line[2]]
        returned = Counter(line[1] for line in lines if line[0] == "returned")
        problems += [f"{name} was handled {times} times in one life" for times in returned.values() if times > 1]
        if name in asked and {(line[4], line[6], line[5]) for line in lines} != {asked[name]}:
            problems.append(f"{name} is not as it was said")
    return problems


def _by_message(agents: list[Agent]) -> dict[str, list[tuple[Any, ...]]]:
    """The lines of each message, each with who heard it at its end."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for agent in agents:
        for line in agent.handled():
            found.setdefault(line[3], []).append((*line, agent.host.agent))
    return found


async def _control(folder: Path, *, forgetful: bool) -> list[str]:
    """What is found when an agent is killed in the midst of handling a message."""
    with hosts(folder, 2, namespaces=False) as made:
        one, other = Agent(made[0]), Agent(made[1], "forgetful" if forgetful else "")
        await asyncio.gather(one.start(), other.start())
        try:
            one.say(other.host, SLOW.decode())
            (name,) = one.unsaid
            await until(lambda: not one.unsaid and len(other.handled()) == 1)
            await other.kill()
            await other.start()
            if not forgetful:
                await until(lambda: other.handled()[-1][0] == "returned")
            other.look()
            await until(lambda: other.rest is not None)
        finally:
            await asyncio.gather(one.kill(), other.kill())
        return judge({name: (one.host.agent, other.host.agent, SLOW.decode())}, [one, other])


async def until(condition: Any) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while not condition():  # noqa: ASYNC110 - several processes tell it, each by a file or a pipe
            await asyncio.sleep(0.005)
