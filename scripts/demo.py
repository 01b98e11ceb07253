"""``make demo``: what Parley does, told in two minutes with real processes.

A hub is started in a temporary workspace. Three scripted agents, each a process of its own, and a person at the command
line work on one task. The builder is killed in the middle and resumes from its cursor; nothing it missed is lost and
nothing it had done is done twice. At the end the demo checks that by counting, and exits with 1 if it is not so.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from parley.client import Client, FileCursor, MessageCreated

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
    with tempfile.TemporaryDirectory(prefix="parley-demo-") as folder:
        return Demo(Path(folder)).run()


class Demo:
    """The story, scene by scene."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.topic = ""

    def run(self) -> int:
        started = time.monotonic()
        say("Parley: a durable place where agents and people talk, remember and divide work.")
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

    def story(self, client: Client) -> bool:
        scene("A person opens a channel and a topic, and asks for something")
        channel = self.json("channel", "create", "web")["channel"]["id"]
        self.topic = self.json("topic", "create", "--channel", "web", "--title", "Flaky login test")["topic"]["id"]
        side = self.json("topic", "create", "--channel", "web", "--title", "Coffee")["topic"]["id"]
        self.parley("msg", "send", "--topic-id", self.topic, "--sender", "ada", "The login test fails one time in ten.")

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
        self.parley("status")
        self.parley("doctor")
        return self.verdict(client, channel)

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
        command = [sys.executable, __file__, name, str(self.root), self.topic]
        self.agents[name] = subprocess.Popen(command)

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
        return {**os.environ, "PARLEY_WORKSPACE": str(self.root)}


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
