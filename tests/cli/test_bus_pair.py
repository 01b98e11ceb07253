"""``parley bus pair``: two machines, each a folder and a process of its own, and a program that carries the digits."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from parley.bus.home import BusHome
from tests.cli.conftest import Parley, Ran

SECONDS = 60.0


class Pairing:
    """``parley bus pair --json`` on one machine."""

    def __init__(self, folder: Path, *words: str, json: bool = True, inside: Sequence[str] = ()) -> None:
        """``inside`` begins a command that runs on a network of its own; elsewhere there is no multicast."""
        way = [] if inside else ["--no-mdns"]
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-m", "parley", "bus", "pair", *way, *words, *(["--json"] if json else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PARLEY_BUS_HOME": str(folder)},
        )

    def next(self, status: str) -> Any:
        """The next line that it prints; the test's own timeout is the deadline."""
        assert self.process.stdout is not None
        line = json.loads(self.process.stdout.readline())
        assert line["status"] == status
        return line

    def type(self, digits: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{digits}\n")
        self.process.stdin.flush()

    def end(self, typed: str = "") -> tuple[int, Any]:
        """What comes of it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended by itself
            self.process.stdin.write(typed)
            self.process.stdin.close()
        said = self.said()
        return self.process.wait(SECONDS), json.loads(said)

    def said(self) -> str:
        """The rest of what it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


class Machines:
    def __init__(self, root: Path, parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._parley = parley
        self._monkeypatch = monkeypatch
        self._running: list[Pairing] = []
        self.user = self.on("laptop", "keygen", "--json").json["user"]

    def folder(self, machine: str) -> Path:
        return self._root / machine

    def on(self, machine: str, *words: str) -> Ran:
        self._monkeypatch.setenv("PARLEY_BUS_HOME", str(self.folder(machine)))
        return self._parley("bus", *words)

    def pair(self, machine: str, *words: str, json: bool = True, inside: Sequence[str] = ()) -> Pairing:
        self._running.append(Pairing(self.folder(machine), *words, json=json, inside=inside))
        return self._running[-1]

    def meet(self, *terms: str, asks: str = "server", lets_in: str = "laptop") -> tuple[Pairing, Pairing]:
        """Both sides, on their way to show digits."""
        host = self.pair(lets_in, "--host", "127.0.0.1", *terms)
        (address,) = host.next("waiting")["addresses"]
        guest = self.pair(asks, address)
        assert guest.next("waiting") == {"status": "waiting"}
        return guest, host

    def end(self) -> None:
        for each in self._running:
            each.process.kill()
            each.process.wait(SECONDS)
            for stream in (each.process.stdin, each.process.stdout, each.process.stderr):
                assert stream is not None
                with suppress(BrokenPipeError):
                    stream.close()


@pytest.fixture
def machines(tmp_path: Path, parley: Parley, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    made = Machines(tmp_path, parley, monkeypatch)
    yield made
    made.end()


@pytest.fixture
def lan() -> Iterator[list[str]]:
    """A network on which nobody else is, with multicast: the beginning of a command that runs there."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("unshare, nsenter or ip is missing")
    made = "ip link set lo up multicast on && ip address add 192.0.2.1/24 dev lo && echo made && exec cat"
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", made],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"made\n":
            pytest.skip("this system lets nobody make a network")
        yield ["nsenter", f"--target={holder.pid}", "--user", "--net", "--preserve-credentials", "--"]
    finally:
        holder.communicate()


def compare(guest: Pairing, host: Pairing) -> tuple[Any, Any]:
    """Carries the digits of each side to the other one."""
    there, here = guest.next("compare"), host.next("compare")
    guest.type(here["code"])
    host.type(there["code"])
    return there, here


def test_two_machines_pair_and_the_one_that_asked_is_let_in(machines: Machines) -> None:
    guest, host = machines.meet("--role", "builder", "--topic", "build", "--days", "7", "--calls", "9")
    there, here = compare(guest, host)
    assert there["code"] == here["code"]
    assert there["user"] == machines.user
    code, let_in = host.end()
    assert code == 0
    assert (let_in["paired"], let_in["role"]) == ("let_in", "builder")
    assert (let_in["topics"], let_in["calls_max"]) == (["build"], 9)
    code, accepted = guest.end()
    assert code == 0
    assert accepted == {"status": "paired", "paired": "accepted"} | {
        name: value for name, value in let_in.items() if name not in ("status", "paired", "host")
    }
    shown = machines.on("server", "whoami", "--json").json
    assert (shown["standing"], shown["agent"], shown["user"]) == ("valid", here["agent"], machines.user)
    assert shown["certificate"]["topics"] == ["build"]
    (issued,) = machines.on("laptop", "whoami", "--json").json["issued"]
    assert issued["agent"] == here["agent"]


@pytest.mark.parametrize("typed", ["", "yes\n"])
def test_a_program_that_does_not_know_the_digits_lets_nobody_in(machines: Machines, typed: str) -> None:
    """The machine that asks has confirmed, and is told that it came to nothing."""
    guest, host = machines.meet()
    guest.type(host.next("compare")["code"])
    code, failed = host.end(typed)
    assert (code, failed["code"]) == (4, "BUS_PAIRING_FAILED")
    guest.next("compare")
    code, failed = guest.end()
    assert (code, failed["code"]) == (4, "BUS_PAIRING_FAILED")
    assert machines.on("laptop", "whoami", "--json").json["issued"] == []
    assert machines.on("server", "whoami", "--json").json["standing"] == "not_enrolled"


def test_a_machine_that_is_killed_while_digits_are_compared_ends_it_for_the_other(machines: Machines) -> None:
    guest, host = machines.meet()
    host.type(guest.next("compare")["code"])
    host.next("compare")
    guest.process.kill()
    code, failed = host.end()
    assert (code, failed["details"]["reason"]) == (4, "ended")
    assert machines.on("laptop", "whoami", "--json").json["issued"] == []


def test_pairing_again_changes_what_a_machine_may_do(machines: Machines) -> None:
    agents: list[str] = []
    for role in ("builder", "reviewer"):
        guest, host = machines.meet("--role", role)
        agents.append(compare(guest, host)[1]["agent"])
        assert host.end()[0] == guest.end()[0] == 0
        assert machines.on("server", "whoami", "--json").json["certificate"]["role"] == role
    assert agents[0] == agents[1]


def test_a_machine_of_another_user_is_not_let_in_anew(machines: Machines) -> None:
    compare(*(first := machines.meet()))
    assert [each.end()[0] for each in first] == [0, 0]
    machines.on("elsewhere", "keygen")
    guest, host = machines.meet(lets_in="elsewhere")
    code, refused = guest.end()
    assert (code, refused["code"]) == (4, "BUS_OTHER_USER")
    host.next("compare")
    assert host.end()[0] == 4
    assert machines.on("server", "whoami", "--json").json["user"] == machines.user


def test_a_revoked_machine_is_not_let_in_by_pairing(machines: Machines) -> None:
    compare(*(first := machines.meet()))
    let_in = first[1].end()[1]
    first[0].end()
    machines.on("laptop", "revoke", let_in["agent"])
    guest, host = machines.meet()
    code, refused = host.end()
    assert (code, refused["code"]) == (4, "BUS_REVOKED")
    guest.next("compare")
    assert guest.end()[0] == 4


def test_where_nobody_is_found_it_ends(machines: Machines) -> None:
    for machine, words in (("laptop", ["--host", "127.0.0.1"]), ("server", ["127.0.0.1:1"])):
        pairing = machines.pair(machine, "--timeout", "1", *words)
        pairing.next("waiting")
        code, missed = pairing.end()
        assert (code, missed["code"]) == (1, "BUS_PAIRING_MISSED")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("laptop", ["127.0.0.1:7"]),
        ("laptop", ["--topic", "a", "--no-topics"]),
        ("laptop", ["--role", ""]),
        ("server", []),
        ("server", ["nowhere"]),
        ("server", ["127.0.0.1:7", "--role", "builder"]),
        ("server", ["127.0.0.1:7", "--days", "3"]),
        ("server", ["127.0.0.1:7", "--no-renewal"]),
        ("server", ["127.0.0.1:7", "--port", "7"]),
    ],
)
def test_what_means_nothing_is_refused(machines: Machines, machine: str, words: list[str]) -> None:
    refused = machines.on(machine, "pair", "--no-mdns", "--json", *words)
    assert (refused.code, refused.json["code"]) == (1, "INVALID_INPUT")
    assert not BusHome(machines.folder("server")).root.exists() or machine == "server"


def test_people_are_told_what_to_do(machines: Machines) -> None:
    """The digits in two groups, on the standard error; what was let in, on the standard output."""

    def read(pairing: Pairing, beginning: str) -> str:
        assert pairing.process.stderr is not None
        return next(line for line in pairing.process.stderr if line.startswith(beginning)).strip()

    host = machines.pair("laptop", "--host", "127.0.0.1", json=False)
    guest = machines.pair("server", read(host, "  parley bus pair ").split()[-1], json=False)
    digits = [read(each, "This machine shows ") for each in (host, guest)]
    assert digits[0] == digits[1]
    for each in (host, guest):
        each.type(digits[0].removeprefix("This machine shows ").rstrip("."))
    assert guest.said().startswith("This machine may act as agent on all topics until ")
    assert host.said().startswith("Agent ")


def test_machines_that_pair_find_each_other_by_multicast(machines: Machines, lan: list[str]) -> None:
    host, guest = machines.pair("laptop", inside=lan), machines.pair("server", inside=lan)
    (address,) = host.next("waiting")["addresses"]
    assert address.startswith("192.0.2.1:")
    assert guest.next("waiting") == {"status": "waiting"}
    there, here = compare(guest, host)
    assert there["user"] == machines.user
    assert [each.end()[0] for each in (guest, host)] == [0, 0]
    assert here["agent"] == machines.on("server", "whoami", "--json").json["agent"]


def test_where_two_machines_let_in_a_person_has_to_say_which(machines: Machines, lan: list[str]) -> None:
    machines.on("stranger", "keygen")
    hosts = [machines.pair(each, inside=lan) for each in ("laptop", "stranger")]
    addresses = sorted(each.next("waiting")["addresses"][0] for each in hosts)
    code, missed = _after(machines.pair("server", inside=lan), "waiting").end()
    assert (code, missed["code"]) == (1, "BUS_PAIRING_MISSED")
    assert sorted(missed["details"]["found"]) == addresses


def _after(pairing: Pairing, status: str) -> Pairing:
    pairing.next(status)
    return pairing
