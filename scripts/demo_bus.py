"""The third act of ``make demo``: two machines of a LAN, and no server between them.

The machines are two folders, and reach each other by address, so the act needs no multicast. The laptop has the user
key. The server is let in by the six digits that both show, answers a request and takes what is published. Then it is
killed, and the laptop goes on sending; what it sends waits, sealed, until the server is back. At the end the act
counts: every message is at the server, once.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from scripts.stage import DIM, RESET, say, scene, show_command, undisturbed

HOST = "127.0.0.1"
HERE = ("--host", HOST, "--no-mdns")
AWAY = 3
"""Messages that are sent while the server is away."""


class BusAct:
    """The act, scene by scene."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.agents: dict[str, str] = {}
        self.heard: list[dict[str, Any]] = []
        folder.mkdir()

    def run(self) -> bool:
        """Plays the act; whether the counts at its end are right."""
        scene("Third act: two machines on a LAN, and nothing between them")
        try:
            self.pair()
            self.talk()
            return self.verdict()
        finally:
            with undisturbed():
                for process in self.running.values():
                    process.terminate()
                for name in list(self.running):
                    self.end(name)

    def pair(self) -> None:
        self.agents["laptop"] = self.json_as("laptop", "keygen")["agent"]
        scene("The server is let in: both show the same six digits, and a person types on each what the other shows")
        laptop = self.start("laptop", "pair", "--role", "builder", *HERE)
        (address,) = self.line(laptop)["addresses"]
        server = self.start("server", "pair", address, "--no-mdns")
        self.line(server)
        shown = {name: self.line(each) for name, each in (("laptop", laptop), ("server", server))}
        for name, other, process in (("laptop", "server", laptop), ("server", "laptop", server)):
            say(f"{DIM}{name} shows {shown[name]['code']}, and is typed {shown[other]['code']}{RESET}")
            assert process.stdin is not None
            process.stdin.write(f"{shown[other]['code']}\n")
            process.stdin.flush()
        for process in (laptop, server):
            self.line(process)
        self.agents["server"] = shown["laptop"]["agent"]
        for name in ("laptop", "server"):
            self.end(name)
        self.parley_as("server", "whoami")

    def talk(self) -> None:
        scene("Both listen; the laptop asks the server something, and publishes to whoever subscribes")
        self.listen("laptop")
        self.listen("server")
        server = self.agents["server"]
        self.parley_as("laptop", "request", server, "status", "main")
        self.parley_as("laptop", "publish", "build", "main is green")
        self.hear(1)
        scene("The server is killed with SIGKILL. The laptop goes on: what it sends waits, sealed to the server")
        self.running["server"].kill()
        self.end("server")
        for number in range(AWAY):
            self.parley_as("laptop", "send", server, "build", f"commit {number} is green")
        self.parley_as("laptop", "outbox")
        scene("The server wakes up, and gets what it missed")
        self.listen("server")
        self.hear(1 + AWAY)

    def verdict(self) -> bool:
        bodies = Counter(each["body"] for each in self.heard)
        expected = ["main is green", *(f"commit {number} is green" for number in range(AWAY))]
        left = self.json_as("laptop", "outbox")["waiting"]
        good = bodies == Counter(expected) and not left
        scene("The count")
        once = "yes" if good else "NO"
        say(f"{len(expected)} messages sent, {len(self.heard)} at the server; each there once: {once}")
        return good

    def listen(self, name: str) -> None:
        topics = ("build", "--answer", "status=echo the tests pass") if name == "server" else ()
        port = self.line(self.start(name, "listen", *topics, *HERE))["port"]
        say(f"{DIM}… {name} listens on port {port}{RESET}")
        other = "laptop" if name == "server" else "server"
        (self.folder / other / "peers").write_text(f"{self.agents[name]} {HOST}:{port}\n")

    def hear(self, count: int) -> None:
        """Reads what the server prints, until it has printed so many messages for the first time."""
        while len(self.heard) < count:
            message = self.line(self.running["server"])
            if not message["redelivered"]:
                say(f"{DIM}server heard: {message['body']}{RESET}")
                self.heard.append(message)

    def start(self, name: str, *arguments: str) -> "subprocess.Popen[str]":
        """Starts what goes on, and prints lines of JSON meanwhile."""
        self.show(name, arguments)
        with undisturbed(), (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "parley", "bus", *arguments, "--json"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment(name),
            )
        return self.running[name]

    def line(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        assert process.stdout is not None
        return json.loads(process.stdout.readline())

    def end(self, name: str) -> None:
        process = self.running.pop(name)
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()

    def parley_as(self, name: str, *arguments: str) -> None:
        """Runs a command as somebody would on their machine, and shows it."""
        self.show(name, arguments)
        subprocess.run(self.command(arguments), check=True, env=self.environment(name))

    def json_as(self, name: str, *arguments: str) -> dict[str, Any]:
        self.show(name, arguments)
        command = [*self.command(arguments), "--json"]
        return json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, env=self.environment(name)).stdout
        )

    def command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "parley", "bus", *arguments]

    def show(self, name: str, arguments: tuple[str, ...]) -> None:
        """Fingerprints are cut short, as is what only the demo needs."""
        shown = (f"{each[:12]}…" if each in self.agents.values() else each for each in arguments if each not in HERE)
        print(f"{DIM}{name}{RESET} ", end="")
        show_command(("bus", *shown))

    def environment(self, name: str) -> dict[str, str]:
        return {**os.environ, "PARLEY_BUS_HOME": str(self.folder / name)}
