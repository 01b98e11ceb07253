"""A guided tour: a hub in a temporary workspace, and simulated agents that plan, divide, build and hand over.

Everything is real but the agents' minds: each is a client of the hub with a name of its own, and what a person sees on
the page or by another command is what they did. The tour goes step by step, says what happens and which command shows
it, and leaves nothing behind unless it is asked to.
"""

import shlex
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from parley.app.start import UpOptions, start_detached
from parley.app.stop import stop_hub
from parley.client import Client
from parley.core.errors import InvalidInput, LeaseConflict, TaskHeld
from parley.wire.entities import Task
from parley.workspace import discovery
from parley.workspace.layout import STATE_NAME, Workspace

STOP_SECONDS: Final = 20.0
IDLE_SHUTDOWN_MS: Final = 30 * 60 * 1000
"""A tour that was left standing ends its hub by itself."""
PERSON, PLANNER, BUILDERS, REVIEWER = "you", "planner", ("builder-1", "builder-2"), "reviewer"
WORK: Final = (
    ("Find why the login test is flaky", "tests/test_login.py"),
    ("Fix the race in the session store", "src/session/**"),
    ("Run the suite fifty times", "ci/**"),
)
TTL_SECONDS: Final = 30 * 60
"""Who reads slowly must not find a claim ended that the next step needs."""


class Step(NamedTuple):
    """One stop of the tour: what it is about, what happens there, and the command that shows it again."""

    title: str
    happen: Callable[[], list[str]]
    look: str


class Tour:
    """The steps, in order; each tells what it did in a few lines."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._clients: dict[str, Client] = {}
        self._channel = self._topic = ""

    @property
    def root(self) -> Path:
        """The folder that it takes place in."""
        return self._workspace.root

    @property
    def page(self) -> str:
        """A link that logs a browser in, once."""
        return self._as(PERSON).page_link().url

    def steps(self) -> list[Step]:
        """What there is to see."""
        return [
            Step("A person asks for something", self._ask, "parley msg tail --channel web"),
            Step("Agents say who they are", self._join, "parley agent list"),
            Step("A planner divides the work into tasks", self._plan, "parley task list"),
            Step("Two builders want the same task, and one gets it", self._claim, "parley task list --status claimed"),
            Step("Paths are leased, so that nobody edits what another edits", self._lease, "parley lease list"),
            Step("Work is handed in, and the next task taken", self._build, "parley task list"),
            Step("What was said is found again", self._find, 'parley search "race"'),
            Step("Everything is in a log that can be read from any cursor", self._log, "parley export --kind event"),
        ]

    def close(self) -> None:
        """Closes the agents' connections."""
        for client in self._clients.values():
            client.close()

    def _as(self, name: str) -> Client:
        if name not in self._clients:
            self._clients[name] = Client(self._workspace.root, sender=name, agent=name)
        return self._clients[name]

    def _say(self, name: str, text: str, reply_to: str | None = None) -> str:
        message = self._as(name).send_message(self._topic, text, reply_to=reply_to).message
        return f"{message.sender}: {message.content_raw}"

    def _ask(self) -> list[str]:
        person = self._as(PERSON)
        self._channel = person.create_channel("web", description="The shop's web team").channel.id
        self._topic = person.create_topic(self._channel, "Flaky login test").topic.id
        return [self._say(PERSON, "The login test fails one time in ten. Who finds out why?")]

    def _join(self) -> list[str]:
        lines: list[str] = []
        for name in (PLANNER, *BUILDERS, REVIEWER):
            agent = self._as(name).register_agent(name=name, program="tour", session=f"tour {name}").agent
            lines.append(f"{agent.name} is here")
        return lines

    def _plan(self) -> list[str]:
        planner = self._as(PLANNER)
        for title, _ in WORK:
            planner.create_task(title, channel_id=self._channel)
        return [self._say(PLANNER, f"{len(WORK)} tasks, in this order. A task has a topic of its own to talk in.")]

    def _claim(self) -> list[str]:
        (first, *_) = self._open_tasks()
        claimed = self._as(BUILDERS[0]).claim_task(first.id, ttl_seconds=TTL_SECONDS).task
        lines = [f"{claimed.holder} holds “{claimed.title}”, generation {claimed.generation}"]
        try:
            self._as(BUILDERS[1]).claim_task(first.id)
        except TaskHeld as held:
            lines.append(f"{BUILDERS[1]} is told: {held}")
        return lines

    def _lease(self) -> list[str]:
        pattern = WORK[0][1]
        lease = self._as(BUILDERS[0]).acquire_lease([pattern], reason=WORK[0][0], ttl_seconds=TTL_SECONDS).lease
        lines = [f"{lease.holder} leases {', '.join(lease.patterns)} until {lease.expires_at}"]
        try:
            self._as(BUILDERS[1]).acquire_lease(["tests/**"])
        except LeaseConflict as conflict:
            lines.append(f"{BUILDERS[1]} is told: {conflict}")
        return lines

    def _build(self) -> list[str]:
        lines: list[str] = []
        for number, builder in enumerate((BUILDERS[0], BUILDERS[1], BUILDERS[0])):
            client, title = self._as(builder), WORK[number][0]
            if number == 0:
                task = next(task for task in client.list_tasks(holder=builder).tasks if task.status == "claimed")
            else:
                task = client.claim_next_task(channel_id=self._channel).task
                assert task is not None, "every task is open until somebody takes it"
            client.send_message(task.topic_id, f"Done: {title.lower()}.")
            done = client.complete_task(task.id, task.generation, "done").task
            lines.append(f"{builder} completed “{done.title}”")
        for lease in self._as(BUILDERS[0]).list_leases(holder=BUILDERS[0]).leases:
            self._as(BUILDERS[0]).release_lease(lease.id, lease.generation)
        lines.append(self._say(REVIEWER, "It was a race in the session store. All three are reviewed, ship it."))
        return lines

    def _find(self) -> list[str]:
        found = self._as(PERSON).search("race session").messages
        return [f"{len(found)} messages, the best: {found[0].sender}: {found[0].content_raw}"]

    def _log(self) -> list[str]:
        log = self._as(PERSON).read_events(0, limit=1000)
        return [f"{len(log.events)} events; the last is {log.events[-1].name}, number {log.replay_until}"]

    def _open_tasks(self) -> list[Task]:
        return list(reversed(self._as(PLANNER).list_tasks(status="open").tasks))


@contextmanager
def open_tour(folder: Path | None) -> Generator[Tour]:
    """A tour in a folder that is kept, or in a temporary one. Its hub stops with it.

    Raises ``InvalidInput`` for a folder that is a workspace already: the tour would write into somebody's own log.
    """
    if folder is not None and (folder / STATE_NAME).exists():
        raise InvalidInput(f"{folder} is a workspace already", field="keep")
    with tempfile.TemporaryDirectory(prefix="parley-tour-", ignore_cleanup_errors=True) as temporary:
        root = folder or Path(temporary) / "shop"
        root.mkdir(parents=True, exist_ok=True)
        workspace = discovery.create(root)
        start_detached(workspace, UpOptions({"hub.idle_shutdown_ms": IDLE_SHUTDOWN_MS}))
        tour = Tour(workspace)
        try:
            yield tour
        finally:
            tour.close()
            stop_hub(workspace, STOP_SECONDS)


def command_line(root: Path, look: str) -> str:
    """The command of a step, as it can be called from any folder."""
    program, _, rest = look.partition(" ")
    return f"{program} --workspace {shlex.quote(str(root))} {rest}"
