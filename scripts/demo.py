"""``make demo``: what Parley does, told in two minutes with real processes.

A hub is started in a temporary workspace that brings a plugin of its own. Three scripted agents, each a process of its
own, and a person at the command line work on one task. The builder is killed in the middle and resumes from its cursor;
nothing it missed is lost and nothing it had done is done twice. Plugins look at every message in their sandboxes, and a
browser, where there is one, at the page. At the end the demo counts, and exits with 1 if anything is missing or double.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.load.chromium import BrowserFailed, Chromium, find_chromium
from parley.client import Client, FileCursor, MessageCreated
from parley.sandbox import missing

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "build" / "demo-topic.png"
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
STEPS = (
    "reproduce the flaky login test, see https://ci.example.com/runs/4711",
    "find the race in the session store",
    "fix it and add a regression test",
    "run the suite 50 times",
)
DEADLINE_SECONDS = 150
"""The story takes a fraction of this, also on a slow machine; whatever hangs is ended here."""
BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("", "", "", "")


def main() -> int:
    """Runs the story, or, when called with an agent's name, that agent."""
    if len(sys.argv) > 1:
        return run_agent(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("The demo took too long"))
    signal.alarm(DEADLINE_SECONDS)
    with tempfile.TemporaryDirectory(prefix="parley-demo-", ignore_cleanup_errors=True) as folder:
        return Demo(Path(folder)).run()


class Demo:
    """The story, scene by scene."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "shop"
        self.plugins_run = not missing()
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.topic = ""

    def run(self) -> int:
        started = time.monotonic()
        say("Parley: a durable place where agents and people talk, remember and divide work.")
        self.make_workspace()
        scene("A hub starts in this workspace, on loopback, with its own token")
        self.parley("up", "--detach")
        try:
            with Client.connect(self.root, sender="demo") as client:
                good = self.story(client)
        finally:
            self.stop_agents()
            scene("The hub stops: it drains, checkpoints and cleans up after itself")
            self.parley("down")
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
        channel = self.json("channel", "create", "web")["channel"]["id"]
        self.topic = self.json("topic", "create", "--channel", "web", "--title", "Flaky login test")["topic"]["id"]
        side = self.json("topic", "create", "--channel", "web", "--title", "Coffee")["topic"]["id"]
        self.parley("msg", "send", "--topic-id", self.topic, "--sender", "ada", ASK)

        scene("Three agents join: a planner, a builder and a reviewer, each a process with a cursor of its own")
        for name in ("planner", "builder", "reviewer"):
            self.start_agent(name)
        self.wait(client, "the builder's first result", lambda posts: count(posts, "builder") >= 1)

        scene("The builder is killed with SIGKILL, in the middle of its work")
        self.agents.pop("builder").send_signal(signal.SIGKILL)
        self.wait(client, "the planner's whole plan", lambda posts: count(posts, "planner") == len(STEPS))
        say(f"The plan goes on without it: {len(STEPS)} steps are posted, the builder has answered fewer.")

        scene("It comes back and resumes from its cursor")
        self.start_agent("builder")
        self.wait(client, "the reviewer's verdict", lambda posts: count(posts, "reviewer") == 1)

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
        return self.verdict(client, channel) and derived

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
        program = find_chromium()
        if program is None:
            say("No browser is here to take a picture with (chromium or google-chrome); `parley ui` needs any.")
            return
        link = self.json("ui", "--print-url")["url"]
        try:
            with Chromium(program, self.folder / "browser") as browser:
                tab = browser.open_tab(height=880)
                tab.open(link, ready="document.querySelector('nav') !== null")
                tab.evaluate(f"location.hash = '#/t/{self.topic}'")
                tab.wait_for("document.querySelectorAll('article[data-message-id]').length > 5")
                tab.wait_for("document.getAnimations().every((animation) => animation.playState !== 'running')")
                PICTURE.parent.mkdir(exist_ok=True)
                tab.screenshot(PICTURE)
        except BrowserFailed as problem:
            say(f"The browser {program} took no picture: {problem}")
        else:
            say(f"A picture of it: {PICTURE}")

    def verdict(self, client: Client, channel: str) -> bool:
        """Counts: every step was answered once, and the log tells the same story as the tables."""
        posts = self.posts(client)
        answered = [post.reply_to for post in posts if post.sender == "builder"]
        steps = [post.id for post in posts if post.sender == "planner"]
        events = client.read_events(0, limit=1000)
        good = sorted(answered) == sorted(steps) and len(steps) == len(STEPS)
        scene("The count")
        say(f"{len(steps)} steps, {len(answered)} answers, each step answered once: {'yes' if good else 'NO'}")
        say(f"{len(events.events)} events in the log of channel {channel}, replayable from any cursor")
        return good

    def posts(self, client: Client) -> list[Any]:
        return list(reversed(client.tail_messages(self.topic, limit=200).messages))

    def wait(self, client: Client, what: str, reached: Any) -> None:
        """Follows the topic until it holds what the story waits for."""
        with client.events(topics=[self.topic]) as feed:
            for event in feed:
                if event.name == "message.created" and reached(self.posts(client)):
                    say(f"{DIM}… {what} is there (event {event.event_id}){RESET}")
                    return

    def start_agent(self, name: str) -> None:
        command = [sys.executable, "-m", "scripts.demo", name, str(self.root), self.topic]
        self.agents[name] = subprocess.Popen(command, cwd=ROOT)

    def stop_agents(self) -> None:
        for process in self.agents.values():
            process.terminate()
        for process in self.agents.values():
            process.wait()

    def parley(self, *arguments: str) -> None:
        """Runs a command as a person would, and shows it."""
        shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
        print(f"{GREEN}$ parley {shown}{RESET}", flush=True)
        subprocess.run([sys.executable, "-m", "parley", *arguments], cwd=self.root, check=True, env=self.environment())

    def json(self, *arguments: str) -> dict[str, Any]:
        """Runs a command as a script would."""
        command = [sys.executable, "-m", "parley", *arguments, "--json"]
        done = subprocess.run(command, cwd=self.root, check=True, capture_output=True, env=self.environment())
        return json.loads(done.stdout)

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PARLEY_WORKSPACE": str(self.root), "PARLEY_HOME": str(self.folder / "home")}


def run_agent(name: str, root: Path, topic: str) -> int:
    """One agent: follows the topic from its cursor and answers what concerns it, each thing once."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        Client.connect(root, sender=name, agent=name) as client,
        client.events(topics=[topic], cursor=FileCursor(root / f"{name}.cursor")) as feed,
    ):
        done = 0
        for event in feed:
            payload = event.payload
            if not isinstance(payload, MessageCreated):
                continue
            message = payload.message
            if name == "planner" and message.sender == "ada" and "fails" in message.content_raw:
                for number, step in enumerate(STEPS, 1):
                    key = f"plan-{message.id}-{number}"
                    client.send_message(topic, f"step {number}: {step}", client_message_id=key)
                    time.sleep(0.3)  # the pace of the story, so that a person can follow it
            elif name == "builder" and message.sender == "planner":
                text = f"done: {message.content_raw.split(':')[0]}"
                client.send_message(topic, text, reply_to=message.id, client_message_id=f"answer-{message.id}")
            elif name == "reviewer" and message.sender == "builder":
                done += 1
                if done == len(STEPS):
                    client.send_message(topic, "All steps reviewed, ship it.", client_message_id=f"verdict-{topic}")
    return 0


def count(posts: list[Any], sender: str) -> int:
    return sum(post.sender == sender for post in posts)


def scene(title: str) -> None:
    print(f"\n{BOLD}== {title}{RESET}", flush=True)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
