"""The second act of ``make demo``: two machines that meet at a broker, and lose nothing while it is killed.

The machines are two daemons with folders of their own. Ada makes a mesh on the broker and invites Bert; they talk
directly and in a topic, sealed for each other. Then Ada sends a stream of messages. In its middle the broker is killed,
and later Bert's daemon is off for a while; Ada goes on as if nothing were. At the end the act counts: every message
that was taken is at the other side, once.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.load.ports import lasting_port
from parley.app.services import CI_VARIABLES
from parley.client.daemon import DaemonClient
from parley.wire.daemon_home import DaemonHome
from scripts.stage import DIM, RESET, say, scene, show_command, undisturbed

MESSAGES = 60
BROKER_DIES_AT, BERT_LEAVES_AT = 20, 40
ANSWERS = 5
LOOK_SECONDS = 0.1
DEADLINE_SECONDS = 120


class MeshAct:
    """The act, scene by scene."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker: subprocess.Popen[str] | None = None
        self.port = lasting_port()
        for name in ("ada", "bert", "broker"):
            (folder / name).mkdir(parents=True)

    def run(self) -> bool:
        """Plays the act; whether the counts at its end are right."""
        scene("Second act: two machines and a broker. The broker sees who talks to whom, never what is said")
        try:
            self.meet()
            self.stream()
            return self.verdict()
        finally:
            with undisturbed():
                for who in ("ada", "bert"):
                    self.parley_as(who, "daemon", "down")
                self.stop_broker()

    def meet(self) -> None:
        started = self.start_broker()
        url = started["url"]
        token = Path(started["creation_token_file"]).read_text().strip()
        scene("Ada makes a mesh and invites Bert; each has a daemon, with an outbox and an inbox on disk")
        self.parley_as("ada", "mesh", "create", "shop", "--broker", url, "--name", "ada", PARLEY_CREATION_TOKEN=token)
        self.parley_as("ada", "daemon", "up", "--no-tcp")
        invite = self.json_as("ada", "mesh", "invite", "--mesh", "shop")["invite"]
        say(f"{DIM}{invite[:60]}…{RESET}")
        self.parley_as("bert", "mesh", "join", invite, "--name", "bert", shown=("mesh", "join", "parley-invite:…"))
        self.parley_as("bert", "daemon", "up", "--no-tcp")
        for who in ("ada", "bert"):
            self.parley_as(who, "mesh", "subscribe", "builds")
        self.parley_as("ada", "mesh", "peers")
        self.parley_as("ada", "send", "bert", "Shall we ship today?")
        self.parley_as("ada", "send", "#builds", "main is green")
        self.wait("Bert has both", lambda: len(self.arrived("bert")) == 2)
        self.parley_as("bert", "inbox")

    def stream(self) -> None:
        scene(f"Ada sends {MESSAGES} messages; in the middle the broker is killed with SIGKILL")
        with DaemonClient(self.home("ada")) as ada:
            self.send(ada, 0, BROKER_DIES_AT)
            self.kill_broker()
            say("It is dead. Ada goes on: what she sends is on her disk, and is told to be queued.")
            self.send(ada, BROKER_DIES_AT, BERT_LEAVES_AT)
            with DaemonClient(self.home("bert")) as bert:
                for number in range(ANSWERS):
                    bert.send("ada", f"answer {number}", client_message_id=f"answer-{number}")
            self.parley_as("ada", "daemon", "status")
            scene("The broker comes back; then Bert's machine is off for a while")
            self.start_broker()
            self.wait("everything so far is at the broker", lambda: not self.unsent(ada))
            self.parley_as("bert", "daemon", "down")
            self.send(ada, BERT_LEAVES_AT, MESSAGES)
            self.wait("the broker has the rest, and keeps it for Bert", lambda: not self.unsent(ada))
        scene("Bert comes back, and gets what he missed")
        self.parley_as("bert", "daemon", "up", "--no-tcp")
        self.wait("Bert has everything", lambda: len(self.arrived("bert")) >= MESSAGES + 2)
        self.wait("and Ada has his answers", lambda: len(self.arrived("ada")) >= ANSWERS)

    def verdict(self) -> bool:
        at_bert, at_ada = Counter(self.arrived("bert")), Counter(self.arrived("ada"))
        expected = {f"stream-{number}" for number in range(MESSAGES)}
        with DaemonClient(self.home("ada")) as ada:
            done = ada.outbox(status="done", limit=500).items
        good = (
            expected < set(at_bert)
            and len(at_bert) == MESSAGES + 2 == len(done)
            and set(at_ada) == {f"answer-{number}" for number in range(ANSWERS)}
            and all(times == 1 for times in (at_bert + at_ada).values())
        )
        scene("The count")
        say(
            f"{len(done)} messages sent by Ada, {sum(at_bert.values())} at Bert; {sum(at_ada.values())} of {ANSWERS}"
            f" answers at Ada; each there once: {'yes' if good else 'NO'}"
        )
        return good

    def send(self, ada: DaemonClient, first: int, end: int) -> None:
        for number in range(first, end):
            to = "bert" if number % 2 else "#builds"
            ada.send(to, f"message {number}", client_message_id=f"stream-{number}")

    def arrived(self, who: str) -> list[str]:
        """The ids of what is in somebody's inbox."""
        with DaemonClient(self.home(who)) as client:
            return [item.client_message_id for item in client.inbox(limit=500, mark_seen=False).items]

    def unsent(self, client: DaemonClient) -> list[Any]:
        return [item for item in client.outbox(limit=500).items if item.status != "done"]

    def wait(self, what: str, reached: Any) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not reached():
            if time.monotonic() > end:
                raise SystemExit(f"It took too long until {what}")
            time.sleep(LOOK_SECONDS)
        say(f"{DIM}… {what}{RESET}")

    def start_broker(self) -> dict[str, Any]:
        """Starts the broker, on the same port in each of its lives, and returns what it says of itself."""
        arguments = ("broker", "up", "--port", str(self.port))
        show_command(arguments)
        log = (self.folder / "broker" / "log").open("ab")
        with undisturbed():
            self.broker = subprocess.Popen(
                [sys.executable, "-m", "parley", *arguments, "--folder", str(self.folder / "broker"), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment("broker"),
            )
        log.close()
        assert self.broker.stdout is not None
        told = ""
        for line in self.broker.stdout:
            told += line
            if line.rstrip() == "}":
                started = json.loads(told)
                say(f"{DIM}… it listens on {started['url']}{RESET}")
                return started
        raise SystemExit("The broker did not start")

    def kill_broker(self) -> None:
        assert self.broker is not None
        self.broker.kill()
        self.end_broker(self.broker)

    def stop_broker(self) -> None:
        if self.broker is not None:
            self.broker.terminate()
            self.end_broker(self.broker)

    def end_broker(self, broker: "subprocess.Popen[str]") -> None:
        broker.wait()
        assert broker.stdout is not None
        broker.stdout.close()
        self.broker = None

    def parley_as(self, who: str, *arguments: str, shown: tuple[str, ...] | None = None, **environment: str) -> None:
        """Runs a command as somebody would on their machine, and shows it."""
        print(f"{DIM}{who}{RESET} ", end="")
        show_command(shown or arguments)
        command = [sys.executable, "-m", "parley", *arguments]
        subprocess.run(command, cwd=self.folder, check=True, env={**self.environment(who), **environment})

    def json_as(self, who: str, *arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "parley", *arguments, "--json"]
        done = subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, env=self.environment(who))
        return json.loads(done.stdout)

    def home(self, who: str) -> DaemonHome:
        return DaemonHome(self.folder / who)

    def environment(self, who: str) -> dict[str, str]:
        homes = {"PARLEY_DAEMON_HOME": str(self.folder / who), "PARLEY_HOME": str(self.folder / "home")}
        # The daemons stop and come back, which an ephemeral one, as on a build machine, does not.
        return {**os.environ, **dict.fromkeys(CI_VARIABLES, ""), **homes}
