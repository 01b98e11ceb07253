"""``parley bus``: machines that talk, each a folder and a process of its own, reached by their addresses."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.app import bus
from parley.bus.home import BusHome
from parley.core.clock import ManualClock, SystemClock
from tests.bus.agents import DAY
from tests.cli.conftest import Parley, Ran

SECONDS = 60.0


ROOT = Path(__file__).parent.parent.parent


class Listener:
    """A machine that listens, in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._log = (folder.parent / f"{folder.name}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "parley", "bus", "listen", "--json", "--no-mdns", "--host", "127.0.0.1", *words],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PARLEY_BUS_HOME": str(folder)},
        )
        self.report = self.next()
        assert self.report["status"] == "listening"

    def next(self) -> Any:
        """The next line that it prints; the test's own timeout is the deadline."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=SECONDS)
        self._log.close()
        return self.process.returncode


class Machines:
    """The machines of one user. The first has the user key."""

    def __init__(self, root: Path, parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._parley = parley
        self._monkeypatch = monkeypatch
        self._running: list[Listener] = []
        self.agents: dict[str, str] = {}
        self.agents["first"] = self.on("first", "keygen", "--json").json["agent"]
        for name in ("second", "third"):
            line = self.on(name, "request").stdout.strip()
            grant = self.on("first", "issue", line).stdout.strip()
            self.agents[name] = self.on(name, "accept", "--json", grant).json["agent"]

    def on(self, machine: str, *words: str) -> Ran:
        self._monkeypatch.setenv("PARLEY_BUS_HOME", str(self.folder(machine)))
        return self._parley("bus", *words)

    def told(self, machine: str, *words: str, mdns: bool = False) -> Any:
        """What a command that reaches others prints."""
        ran = self.on(machine, *words, "--json", *([] if mdns else ["--no-mdns"]))
        assert ran.code == 0, ran.stdout
        return ran.json

    def folder(self, machine: str) -> Path:
        return self._root / machine

    def listen(self, machine: str, *words: str) -> Listener:
        """Starts a listener, whose address the other machines are told."""
        listener = Listener(self.folder(machine), *words)
        self._running.append(listener)
        self.tell(machine, listener.report["port"])
        return listener

    def tell(self, machine: str, port: int) -> None:
        """Writes down for the other machines where this one is."""
        for other in self.agents.keys() - {machine}:
            known = BusHome(self.folder(other)).peers
            lines = known.read_text().splitlines() if known.exists() else []
            kept = [line for line in lines if not line.startswith(self.agents[machine])]
            kept.append(f"{self.agents[machine]} 127.0.0.1:{port}")
            known.write_text("\n".join(kept) + "\n")

    def end(self) -> None:
        for listener in self._running:
            listener.end(signal.SIGKILL)


@pytest.fixture
def machines(tmp_path: Path, parley: Parley, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    made = Machines(tmp_path, parley, monkeypatch)
    yield made
    made.end()


def bodies(listener: Listener, count: int) -> list[str]:
    """The next ones. A kill may have come between the print of a message and the note of it, which it then says."""
    found: list[str] = []
    while len(found) < count:
        message = listener.next()
        if not message["redelivered"]:
            found.append(message["body"])
    return found


def test_a_request_is_answered_by_what_a_command_prints(machines: Machines) -> None:
    machines.listen("second", "--answer", "echo=cat", "--answer", "broken=false")
    second = machines.agents["second"]
    assert machines.told("first", "request", second, "echo", "hello") == {
        "status": "ok",
        "agent": second,
        "topic": "echo",
        "body": "hello",
        "body_base64": None,
    }
    asked = machines.on("first", "request", second, "echo", "plain", "--no-mdns")
    assert (asked.code, asked.stdout) == (0, "plain\n")
    failed = machines.on("first", "request", second, "broken", "hello", "--json", "--no-mdns")
    assert (failed.code, failed.json["code"]) == (1, "BUS_HANDLER_FAILED")


def test_what_is_published_reaches_all_that_subscribe(machines: Machines) -> None:
    second, third = (machines.listen(name, "news") for name in ("second", "third"))
    for name in ("second", "third"):
        machines.told("first", "send", machines.agents[name], "news", "hello")
    found = machines.told("first", "publish", "news", "to all")
    assert {each["agent"]: each["outcome"] for each in found["deliveries"]} == {
        machines.agents["second"]: "delivered",
        machines.agents["third"]: "delivered",
    }
    message = second.next()
    assert (message["topic"], message["agent"], message["body"]) == ("news", machines.agents["first"], "hello")
    assert not message["redelivered"]
    assert bodies(second, 1) == ["to all"]
    assert bodies(third, 2) == ["hello", "to all"]


def test_sequences_go_on_when_either_side_is_started_again(machines: Machines) -> None:
    """Each command is a sender that is started anew, and none of what they send is refused as a replay."""
    second = machines.listen("second", "news")
    for number in range(2):
        machines.told("first", "send", machines.agents["second"], "news", f"before {number}")
    assert bodies(second, 2) == ["before 0", "before 1"]
    assert second.end() == 0
    again = machines.listen("second", "news")
    assert again.report["port"] == second.report["port"]
    first = machines.listen("first")
    for number in range(2):
        machines.told("first", "send", machines.agents["second"], "news", f"after {number}")
    first.end(signal.SIGKILL)
    machines.told("first", "send", machines.agents["second"], "news", "after a kill")
    assert bodies(again, 3) == ["after 0", "after 1", "after a kill"]


def test_what_waits_for_a_machine_that_was_killed_is_delivered_once_when_it_is_back(machines: Machines) -> None:
    first, second = machines.listen("first", "news"), machines.listen("second", "news")
    machines.told("first", "send", machines.agents["second"], "news", "while it is there")
    assert bodies(second, 1) == ["while it is there"]
    second.end(signal.SIGKILL)
    spooled = machines.told("first", "send", machines.agents["second"], "news", "while it is away")
    assert spooled["outcome"] == "spooled"
    (waiting,) = machines.on("first", "outbox", "--json").json["waiting"]
    assert (waiting["id"], waiting["agent"]) == (spooled["outbox_id"], machines.agents["second"])
    again = machines.listen("second", "news")
    machines.told("second", "send", machines.agents["first"], "news", "I am back")
    assert bodies(first, 1) == ["I am back"]
    assert bodies(again, 1) == ["while it is away"]
    machines.told("first", "send", machines.agents["second"], "news", "and nothing twice")
    assert bodies(again, 1) == ["and nothing twice"]


def test_what_waits_outlives_the_sender(machines: Machines) -> None:
    second = machines.listen("second", "news")
    machines.told("first", "send", machines.agents["second"], "news", "hello")
    assert bodies(second, 1) == ["hello"]
    second.end()
    sender = machines.listen("first")
    name = machines.agents["second"]
    assert machines.on("first", "send", name, "news", "later").stdout.startswith(f"{name} is away; ")
    assert machines.on("first", "send", name, "news", "last").stdout.startswith(f"Other messages wait for {name}; ")
    sender.end(signal.SIGKILL)
    again = machines.listen("second", "news")
    machines.listen("first")
    assert bodies(again, 2) == ["later", "last"]


def test_without_a_listener_what_waits_is_sent_by_the_next_command_that_sends(machines: Machines) -> None:
    second = machines.listen("second", "news")
    machines.told("first", "send", machines.agents["second"], "news", "hello")
    assert bodies(second, 1) == ["hello"]
    second.end()
    assert machines.told("first", "send", machines.agents["second"], "news", "later")["outcome"] == "spooled"
    again = machines.listen("second", "news")
    assert machines.told("first", "send", machines.agents["second"], "news", "now")["outcome"] == "delivered"
    assert bodies(again, 2) == ["later", "now"]
    assert machines.on("first", "outbox", "--json").json["waiting"] == []


def test_a_message_of_the_outbox_can_be_given_up(machines: Machines) -> None:
    second = machines.listen("second", "news")
    machines.told("first", "send", machines.agents["second"], "news", "hello")
    second.end()
    number = str(machines.told("first", "send", machines.agents["second"], "news", "later")["outbox_id"])
    assert machines.on("first", "outbox", "--unwedge", number, "--json").json["changed"] is False
    assert machines.on("first", "outbox", "--unwedge", number).stdout == "No message with this number is wedged.\n"
    assert machines.on("first", "outbox", "--discard", number, "--json").json["changed"] is True
    assert machines.on("first", "outbox", "--json").json["waiting"] == []
    assert machines.on("first", "outbox", "--discard", number).stdout == "There is no such message.\n"


def test_other_commands_use_the_process_that_listens(machines: Machines) -> None:
    machines.listen("second", "news")
    machines.listen("first")
    assert stat.S_IMODE(BusHome(machines.folder("first")).socket.stat().st_mode) == 0o600
    machines.told("first", "send", machines.agents["second"], "news", "hello")
    (peer,) = machines.told("first", "peers")["peers"]
    assert peer["connected"], "only who sent it has the connection"
    assert (peer["agent"], peer["topics"]) == (machines.agents["second"], ["news"])
    shown = machines.on("first", "peers", "--no-mdns").stdout.split("\t")
    assert shown[:4] == [machines.agents["second"], "agent", "connected", "news"]


def test_a_second_listener_is_refused(machines: Machines) -> None:
    machines.listen("first")
    refused = machines.on("first", "listen", "--json", "--no-mdns")
    assert (refused.code, refused.json["code"]) == (10, "BUS_STORE_LOCKED")


def test_what_is_revoked_while_machines_listen_reaches_them_and_ends_the_talk(machines: Machines) -> None:
    """The third machine is not revoked, and is the control."""
    first = machines.listen("first", "news")
    machines.listen("second", "--answer", "echo=cat")
    machines.told("second", "send", machines.agents["first"], "news", "hello")
    assert bodies(first, 1) == ["hello"]
    machines.on("first", "revoke", machines.agents["second"])
    while machines.on("second", "send", machines.agents["first"], "news", "again", "--no-mdns").code == 0:
        pass
    machines.told("third", "send", machines.agents["first"], "news", "I am still here")
    while (body := bodies(first, 1)[0]) != "I am still here":
        assert body == "again"
    for refused in (machines.on("second", "send", machines.agents["first"], "news", "late", "--no-mdns") for _ in "12"):
        assert refused.code != 0
    machines.told("third", "send", machines.agents["first"], "news", "and nothing came between")
    assert bodies(first, 1) == ["and nothing came between"]


def test_a_certificate_that_was_renewed_is_used_by_a_listener_that_runs(machines: Machines) -> None:
    """Before, the machine may speak on one topic, and after on another one."""
    first = machines.listen("first", "build", "news")
    line = machines.on("second", "request").stdout.strip()
    narrow = machines.on("first", "issue", line, "--topic", "news").stdout.strip()
    machines.on("second", "accept", narrow)
    machines.listen("second")
    to_first = machines.agents["first"]
    refused = machines.on("second", "send", to_first, "build", "hello", "--json", "--no-mdns")
    assert refused.json["code"] == "BUS_TOPIC_REFUSED"
    wide = machines.on("first", "issue", line, "--topic", "news", "--topic", "build").stdout.strip()
    machines.on("second", "accept", wide)
    while machines.on("second", "send", to_first, "build", "hello", "--no-mdns").code:
        pass
    assert bodies(first, 1) == ["hello"]


def test_an_agent_that_nobody_knows_cannot_be_asked_and_nothing_waits_for_it(machines: Machines) -> None:
    refused = machines.on("first", "request", machines.agents["second"], "echo", "hello", "--json", "--no-mdns")
    assert (refused.code, refused.json["code"]) == (1, "BUS_PEER_UNREACHABLE")
    assert machines.on("first", "outbox", "--json").json["waiting"] == []


def test_what_was_refused_by_the_listener_is_told_as_it_was_there(machines: Machines) -> None:
    machines.listen("second", "news")
    alone = machines.on("first", "send", machines.agents["second"], "other", "hello", "--json", "--no-mdns")
    machines.listen("first")
    asked = machines.on("first", "send", machines.agents["second"], "other", "hello", "--json", "--no-mdns")
    assert asked.json == alone.json
    assert asked.code == alone.code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["listen", "--answer", "echo"],
        ["listen", "--answer", "=cat"],
        ["listen", "--answer", "echo='cat"],
        ["request", "0" * 64],
        ["request", "0" * 12, "echo"],
        ["outbox", "--unwedge", "1", "--discard", "1"],
    ],
)
def test_what_means_nothing_is_refused(machines: Machines, words: list[str]) -> None:
    refused = machines.on("first", *words, "--json")
    assert (refused.code, refused.json["code"]) == (1, "INVALID_INPUT")


@pytest.mark.parametrize("name", ["bus_on_a_lan.py", "bus_blocking.py"])
def test_a_program_joins_the_bus_from_the_folder_of_its_machine(machines: Machines, name: str) -> None:
    """The examples of the documents. Whether it finds multicast DNS makes no difference here."""
    program = subprocess.Popen(
        [sys.executable, ROOT / "examples" / name, "news"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PARLEY_BUS_HOME": str(machines.folder("second"))},
    )
    assert program.stdout is not None
    try:
        for line in program.stdout:
            if line.startswith("listening on port"):
                machines.tell("second", int(line.split()[-1]))
                break
        machines.told("first", "send", machines.agents["second"], "news", "hello")
        heard = next(line for line in program.stdout if line.endswith("hello\n"))
        assert heard == f"{machines.agents['first']} hello\n"
    finally:
        program.kill()
        program.communicate(timeout=SECONDS)


def test_a_machine_whose_certificate_ends_soon_gets_a_new_one_when_it_meets_the_user_key(machines: Machines) -> None:
    """It was issued 80 days ago, for 90. What the third machine has was issued to end."""
    clock = ManualClock()
    clock.jump(SystemClock().now_ms() - 80 * DAY - clock.now_ms())

    def issue(machine: str, *, renewal: bool) -> str:
        line = machines.on(machine, "request").stdout.strip()
        machines.on("first", "whoami")
        found = bus.issue(
            line, role="builder", days=90, topics=(), no_topics=False, calls_max=None, renewal=renewal, clock=clock
        )
        assert machines.on(machine, "accept", found["grant"]).code == 0
        return found["expires_at"]

    ends = {"second": issue("second", renewal=True), "third": issue("third", renewal=False)}
    first = machines.listen("first", "news")
    for machine in ends:
        machines.listen(machine, "news")
        machines.told(machine, "send", machines.agents["first"], "news", "hello")
    assert bodies(first, 2) == ["hello", "hello"]
    while (found := machines.on("second", "whoami", "--json").json)["certificate"]["expires_at"] == ends["second"]:
        pass
    assert (found["standing"], found["certificate"]["role"]) == ("valid", "builder")
    machines.told("second", "send", machines.agents["first"], "news", "with the new one")
    assert bodies(first, 1) == ["with the new one"]
    assert machines.on("third", "whoami", "--json").json["certificate"]["expires_at"] == ends["third"]


@pytest.mark.parametrize("policy", ["off", "publish", "all"])
def test_what_waits_for_an_agent_that_is_away_is_for_whoever_listens_to_say(machines: Machines, policy: str) -> None:
    second = machines.listen("second", "news")
    machines.listen("first", "--spool", policy)
    machines.told("first", "send", machines.agents["second"], "news", "hello")
    second.end(signal.SIGKILL)
    sent = machines.on("first", "send", machines.agents["second"], "news", "later", "--json")
    asked = machines.on("first", "request", machines.agents["second"], "echo", "later", "--json", "--timeout", "0.5")
    assert sent.json["status" if policy == "off" else "outcome"] == ("error" if policy == "off" else "spooled")
    assert asked.json["code"] == ("BUS_NO_REPLY" if policy == "all" else "BUS_PEER_UNREACHABLE")
