"""``make demo``: what Parley does, told in two minutes with real processes.

A hub is started in a temporary workspace that brings a plugin of its own. Three scripted agents, each a process of its
own, and a person at the command line work on one thing: a planner divides it into tasks, a builder claims them one by
one and leases the paths that it works on, a reviewer looks at what was done. The builder is killed in the middle and
goes on with what it held; nothing it missed is lost and nothing it had done is done twice. Plugins look at every
message in their sandboxes, and a browser, where there is one, at the page. Then the pipeline takes the log into a lake,
proves that the hub's tables are what its log says, and draws how the team worked. In a second act two machines meet at
a broker, in a third one two on a LAN without any. At the end of each act the demo counts, and exits with 1 if anything
is missing or double.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.load.chromium import BrowserFailed, Chromium, find_chromium
from parley.client import Client, EventEnvelope, FileCursor, MessageCreated
from parley.core.exits import Exit
from parley.sandbox import missing
from scripts.demo_bus import BusAct
from scripts.demo_mesh import MeshAct
from scripts.stage import DIM, RESET, end_on_signals, say, scene, show_command, undisturbed

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "build" / "demo-topic.png"
REPORT = ROOT / "build" / "demo-report.html"
REPORT_PICTURE = ROOT / "build" / "demo-report.png"
SETTINGS = """\
[[plugins]]
name = "links"
type = "linkifier"

[[plugins]]
name = "urls"
type = "extractor"

[[plugins]]
name = "tickets"
type = "linkifier"
module = "plugins/tickets.py"
config = { tracker = "https://tracker.example.com/" }
"""
PLUGIN = """\
from parley.plugin import find, link


def enrich(message, config):
    return [link(match, config["tracker"] + match[0]) for match in find(r"\\bWEB-\\d+\\b", message)]
"""
ASK = "The login test fails one time in ten, see tests/test_login.py:88 and WEB-42."
FOUND = {("links", "code_ref"): "tests/test_login.py:88", ("tickets", "link"): "WEB-42"}
"""What the plugins find in it."""
VERDICT = "All steps reviewed, ship it."
STEPS = (
    ("reproduce the flaky login test, see https://ci.example.com/runs/4711", "tests/test_login.py"),
    ("find the race in the session store", "src/session/**"),
    ("fix it and add a regression test", "src/session/**"),
    ("run the suite 50 times", "ci/**"),
)
"""What the planner makes tasks of, and the paths that each is about."""
PACE_SECONDS = 0.7
"""How long a step takes, so that a person can follow the story."""
DEADLINE_SECONDS = 1200
"""The story takes a fraction of this, also on a slow machine; whatever hangs is ended here."""


def main() -> int:
    """Runs the story, or, when called with an agent's name, that agent."""
    if len(sys.argv) > 1:
        return Agent(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]).run()
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("The demo took too long"))
    signal.alarm(DEADLINE_SECONDS)
    end_on_signals()
    with tempfile.TemporaryDirectory(prefix="parley-demo-", ignore_cleanup_errors=True) as folder:
        return Demo(Path(folder)).run()


class Demo:
    """The story, scene by scene."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "shop"
        self.plugins_run = not missing()
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.channel = self.topic = ""

    def run(self) -> int:
        started = time.monotonic()
        say("Parley: a durable place where agents and people talk, remember and divide work.")
        self.make_workspace()
        scene("A hub starts in this workspace, on loopback, with its own token")
        try:
            self.parley("up", "--detach")
            with Client.connect(self.root, sender="demo") as client:
                good = self.story(client)
        finally:
            with undisturbed():
                self.stop_agents()
                scene("The hub stops: it drains, checkpoints and cleans up after itself")
                self.parley("down")
        good = MeshAct(self.folder / "mesh").run() and good
        good = BusAct(self.folder / "bus").run() and good
        say(f"The whole story took {time.monotonic() - started:.0f} seconds.")
        return 0 if good else 1

    def make_workspace(self) -> None:
        scene("A workspace with three plugins: two that come with Parley, and five lines of its own")
        (self.root / "plugins").mkdir(parents=True)
        (self.root / "parley.toml").write_text(SETTINGS)
        (self.root / "plugins" / "tickets.py").write_text(PLUGIN)
        say(f"{DIM}{PLUGIN.rstrip()}{RESET}")
        self.parley("init")
        say("It came with the workspace, so it runs only after a person has said yes to it:")
        self.parley("trust", "--yes")
        if self.plugins_run:
            self.parley("plugin", "test", "tickets", "--text", "fixed with WEB-42")
        else:
            say(f"No plugin runs on this machine: {'; '.join(missing())}")

    def story(self, client: Client) -> bool:
        scene("The hub's page: open this link within five minutes, and watch")
        self.parley("ui", "--print-url")

        scene("A person opens a channel and a topic, and asks for something")
        self.channel = channel = self.json("channel", "create", "web")["channel"]["id"]
        self.topic = self.json("topic", "create", "--channel", "web", "--title", "Flaky login test")["topic"]["id"]
        side = self.json("topic", "create", "--channel", "web", "--title", "Coffee")["topic"]["id"]
        self.parley("msg", "send", "--topic-id", self.topic, "--sender", "ada", ASK)

        scene("Three agents join: a planner, a builder and a reviewer, each a process with a cursor of its own")
        for name in ("planner", "builder", "reviewer"):
            self.start_agent(name)
        self.wait(client, channel, "task.completed", "the first task is done")

        scene("The planner made tasks; the builder claims one after the other, and leases the paths it works on")
        self.parley("task", "list")
        self.wait(client, None, "lease.acquired", "the builder has the next one, and its paths", times=2)

        scene("The builder is killed with SIGKILL, in the middle of its work")
        self.agents.pop("builder").send_signal(signal.SIGKILL)
        self.parley("agent", "list")
        self.parley("lease", "list")
        say("What it holds stays its own until the claim ends; another agent would be told who has it, and until when:")
        self.parley_refused("lease", "acquire", "src/**", "--agent", "intruder")

        scene("It comes back under its name and goes on with what it held")
        self.start_agent("builder")
        self.wait(client, channel, "task.completed", "all tasks are done", times=len(STEPS))
        self.wait(client, channel, "message.created", "the reviewer's verdict", sender="reviewer")

        scene("The person tidies up: an edit, a move to another topic, a deletion")
        stray = client.send_message(self.topic, "Anyone for coffee?", sender="ada").message
        self.parley("msg", "retopic", stray.id, "--to-topic-id", side, "--mode", "one")
        typo = client.send_message(self.topic, "Thnaks, all!", sender="ada").message
        self.parley("msg", "edit", typo.id, "--content", "Thanks, all!", "--expected-version", "1")
        oops = client.send_message(self.topic, "my password is hunter2", sender="ada").message
        self.parley("msg", "delete", oops.id, "--actor", "ada")

        scene("What was said, found again")
        self.parley("search", "race session")
        self.parley("msg", "tail", "--topic-id", self.topic, "--limit", "12")
        self.parley("attachment", "list", "--topic-id", self.topic)

        scene("What the plugins made of it, each in a process that sees no file, no token and no network")
        derived = self.show_plugins(client)
        self.parley("status")
        self.parley("doctor")
        self.take_picture()
        audited = self.pipeline()
        return self.verdict(client, channel) and derived and audited

    def pipeline(self) -> bool:
        """The same log, in Spark: a lake, the proof that nothing was lost, and a picture of how the team worked."""
        scene("Afterwards: Spark takes the log into a lake, proves that nothing was lost, and draws how they worked")
        if find_spec("pyspark") is None:
            say("The pipeline is not installed: pip install 'parley-mesh[pipeline]'")
            return True
        lake = ("--lake", str(self.folder / "lake"))
        REPORT.parent.mkdir(exist_ok=True)
        clean = self.parley_code("pipeline", "run", "--audit", *lake, "--out", str(REPORT)) == Exit.OK
        self.parley(
            "pipeline", "sql", *lake, "SELECT agent, messages, answers_given FROM gold_agents ORDER BY messages DESC"
        )
        say(f"The report, one file that needs nothing else: {REPORT}")
        self.draw(REPORT.as_uri(), REPORT_PICTURE, ready="document.documentElement?.dataset.ready !== undefined")
        return clean

    def show_plugins(self, client: Client) -> bool:
        """Shows what was found in the first message; whether it is what should be found, each thing once."""
        if not self.plugins_run:
            self.parley("plugin", "list")
            return True
        while any(plugin.waiting for plugin in client.list_plugins().plugins):
            time.sleep(0.1)
        self.parley("plugin", "list")
        ask = self.posts(client)[0]
        found = {
            (each.plugin_name, each.kind): ask.content_raw[each.span.start : each.span.end]
            for each in client.list_enrichments([ask.id]).enrichments
        }
        for (plugin, kind), text in found.items():
            say(f"{plugin} found a {kind}: {text}")
        told = Counter(
            (event.entity.id, event.data_json["plugin_name"], event.data_json["version"])
            for event in client.read_events(0, limit=1000).events
            if event.name == "message.enriched"
        )
        once = found == FOUND and all(times == 1 for times in told.values())
        say(f"{len(told)} findings in the log, all there and each told once: {'yes' if once else 'NO'}")
        return once

    def take_picture(self) -> None:
        """Saves what the page shows of the topic, where there is a browser."""
        scene("The topic in a browser")
        link = self.json("ui", "--print-url")["url"]
        self.draw(link, PICTURE, ready="document.querySelector('nav') !== null", then=f"#/t/{self.topic}")

    def draw(self, link: str, picture: Path, *, ready: str, then: str | None = None) -> None:
        """Saves a picture of a page, where there is a browser; ``then`` is a place in it that holds messages."""
        program = find_chromium()
        if program is None:
            say("No browser is here to take a picture with (chromium or google-chrome); `parley ui` needs any.")
            return
        try:
            with Chromium(program, self.folder / "browser") as browser:
                tab = browser.open_tab(height=880)
                tab.open(link, ready=ready)
                if then is not None:
                    tab.evaluate(f"location.hash = '{then}'")
                    tab.wait_for("document.querySelectorAll('article[data-message-id]').length > 5")
                tab.wait_for("document.getAnimations().every((animation) => animation.playState !== 'running')")
                picture.parent.mkdir(exist_ok=True)
                tab.screenshot(picture)
        except BrowserFailed as problem:
            say(f"The browser {program} took no picture: {problem}")
        else:
            say(f"A picture of it: {picture}")

    def verdict(self, client: Client, channel: str) -> bool:
        """Counts: every task was made, done and told of once, and nothing is still held."""
        events = client.read_events(0, limit=1000).events
        told = Counter((event.name, event.entity.id) for event in events if event.entity.type in ("task", "lease"))
        done = [task.id for task in client.list_tasks(status="completed").tasks]
        reports = [post.content_raw for post in self.posts(client) if post.sender == "builder"]
        tasks = {task.id: f"done: {task.title}" for task in client.list_tasks().tasks}
        good = (
            len(done) == len(tasks) == len(STEPS)
            and all(told["task.completed", task] == told["task.created", task] == 1 for task in tasks)
            and sorted(reports) == sorted(tasks.values())
            and not client.list_leases().leases
        )
        scene("The count")
        say(f"{len(tasks)} tasks, {len(done)} completed, each done and reported once: {'yes' if good else 'NO'}")
        say(f"{len(events)} events in the log of channel {channel}, replayable from any cursor")
        return good

    def posts(self, client: Client) -> list[Any]:
        return list(reversed(client.tail_messages(self.topic, limit=200).messages))

    def wait(
        self, client: Client, channel: str | None, name: str, what: str, *, times: int = 1, sender: str | None = None
    ) -> None:
        """Follows the channel, or everything, until it has seen such an event so many times, from its beginning."""
        seen = 0
        with client.events(channels=None if channel is None else [channel]) as feed:
            for event in feed:
                by = event.data.get("message", {}).get("sender") if event.name == "message.created" else None
                seen += event.name == name and (sender is None or by == sender)
                if seen == times:
                    say(f"{DIM}… {what} (event {event.event_id}){RESET}")
                    return

    def start_agent(self, name: str) -> None:
        command = [sys.executable, "-m", "scripts.demo", name, str(self.root), self.channel, self.topic]
        with undisturbed():
            self.agents[name] = subprocess.Popen(command, cwd=ROOT)

    def stop_agents(self) -> None:
        for process in self.agents.values():
            process.terminate()
        for process in self.agents.values():
            process.wait()

    def parley(self, *arguments: str) -> None:
        """Runs a command as a person would, and shows it."""
        if code := self.parley_code(*arguments):
            raise SystemExit(f"parley {arguments[0]} ended with {code}")

    def parley_code(self, *arguments: str) -> int:
        """Runs a command, shows it, and returns its exit code."""
        show_command(arguments)
        command = [sys.executable, "-m", "parley", *arguments]
        return subprocess.run(command, cwd=self.root, check=False, env=self.environment()).returncode

    def parley_refused(self, *arguments: str) -> None:
        """Runs a command that has to be refused because somebody else was first."""
        code = self.parley_code(*arguments)
        if code != Exit.CONFLICT:
            raise SystemExit(f"That should have been refused, and ended with {code}")

    def json(self, *arguments: str) -> dict[str, Any]:
        """Runs a command as a script would."""
        command = [sys.executable, "-m", "parley", *arguments, "--json"]
        done = subprocess.run(command, cwd=self.root, check=True, capture_output=True, env=self.environment())
        return json.loads(done.stdout)

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PARLEY_WORKSPACE": str(self.root), "PARLEY_HOME": str(self.folder / "home")}


class Agent:
    """One agent: follows the channel from its cursor and does what concerns it, each thing once."""

    def __init__(self, name: str, root: Path, channel: str, topic: str) -> None:
        self.name, self.root, self.channel, self.topic = name, root, channel, topic
        self.done = 0
        self.came_back = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        cursor = FileCursor(self.root / f"{self.name}.cursor")
        with Client.connect(self.root, sender=self.name, agent=self.name) as client:
            client.register_agent(name=self.name, program="demo", session=f"demo {self.name}")
            if self.name == "builder":
                self.work_off(client)
            with client.events(channels=[self.channel], cursor=cursor) as feed:
                for event in feed:
                    self.hear(client, event)
        return 0

    def hear(self, client: Client, event: EventEnvelope) -> None:
        payload = event.payload
        if self.name == "planner" and isinstance(payload, MessageCreated) and payload.message.content_raw == ASK:
            for number, (step, _) in enumerate(STEPS, 1):
                key = f"plan-{payload.message.id}-{number}"
                client.create_task(f"{number}. {step}", channel_id=self.channel, idempotency_key=key)
            plan = f"I made {len(STEPS)} tasks of it, each with a topic of its own."
            client.send_message(self.topic, plan, reply_to=payload.message.id, client_message_id=f"plan-{self.topic}")
        elif self.name == "builder" and event.name == "task.created":
            self.work_off(client)
        elif self.name == "reviewer" and event.name == "task.completed" and all_done(client):
            client.send_message(self.topic, VERDICT, client_message_id=f"verdict-{self.topic}")

    def work_off(self, client: Client) -> None:
        """Goes on with what it holds, then takes one open task after the other."""
        held = client.list_tasks(status="claimed", holder=self.name).tasks
        self.came_back = self.came_back or bool(held)
        while task := held.pop() if held else client.claim_next_task(channel_id=self.channel).task:
            paths = next(paths for step, paths in STEPS if step in task.title)
            lease = client.acquire_lease([paths], reason=task.title).lease
            dies_here = self.done == 1 and not self.came_back
            time.sleep(DEADLINE_SECONDS if dies_here else PACE_SECONDS)
            client.send_message(self.topic, f"done: {task.title}", client_message_id=f"answer-{task.id}")
            client.release_lease(lease.id, lease.generation)
            client.complete_task(task.id, task.generation, "done", idempotency_key=f"complete-{task.id}")
            self.done += 1


def all_done(client: Client) -> bool:
    return len(client.list_tasks(status="completed").tasks) == len(STEPS)


if __name__ == "__main__":
    raise SystemExit(main())
