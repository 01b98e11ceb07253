"""Machines for a campaign: namespaces of the network on one bridge, or, without root, ports of this machine.

In namespaces agents find each other by multicast DNS, and a host's link can be cut and delayed. Elsewhere they have the
addresses of the others from a file, and a link does nothing.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.load.ports import lasting_port
from parley.app import bus as enrolment
from parley.bus.home import HOME_VARIABLE, BusHome

_numbers = count(1)


class Host:
    """One machine: its folder, and how a program is started there."""

    def __init__(self, folder: Path, namespace: str | None) -> None:
        self.folder = folder
        self.namespace = namespace
        self.port = 0 if namespace else lasting_port()
        self.agent = ""

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace] if self.namespace else []

    @property
    def where(self) -> list[str]:
        return ["mdns"] if self.namespace else ["127.0.0.1", str(self.port)]

    def cut(self) -> None:
        """The cable is out."""
        self._link("set", "eth0", "down")

    def delay(self, milliseconds: int) -> str:
        """The network is slow, and with ``netem`` loses some. What makes it so; empty if nothing can."""
        for kind, how in (
            ("netem", f"delay {milliseconds}ms {milliseconds // 2}ms loss 2%"),
            ("tbf", f"rate {40_000 // milliseconds}kbit burst 2kb latency {10 * milliseconds}ms"),
        ):
            command = [*self.prefix, "tc", "qdisc", "replace", "dev", "eth0", "root", kind, *how.split()]
            if self.namespace and subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return kind
        return ""

    def restore(self) -> None:
        """All is well."""
        if self.namespace:
            subprocess.run(
                [*self.prefix, *["tc", "qdisc", "del", "dev", "eth0", "root"]], capture_output=True, check=False
            )
            self._link("set", "eth0", "up")
            _run(*self.prefix, "ip", "route", "replace", "224.0.0.0/4", "dev", "eth0")

    def _link(self, *what: str) -> None:
        if self.namespace:
            _run(*self.prefix, "ip", "link", *what)


def has_namespaces() -> bool:
    """Whether namespaces of the network can be made here, with a bridge."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc"))):
        return False
    try:
        with _lan([]):
            return True
    except subprocess.CalledProcessError:
        return False


@contextmanager
def hosts(folder: Path, number: int, *, namespaces: bool) -> Iterator[list[Host]]:
    """So many machines of one user, each let in by the first."""
    names = [f"pb{os.getpid()}-{next(_numbers)}" if namespaces else None for _ in range(number)]
    made = [Host(folder / f"host-{index}", name) for index, name in enumerate(names)]
    _enrol(made)
    if namespaces:
        with _lan([each for each in names if each is not None]):
            yield made
    else:
        lines = "".join(f"{each.agent} 127.0.0.1:{each.port}\n" for each in made)
        for each in made:
            BusHome(each.folder).peers.write_text(lines)
        yield made


def _enrol(made: Sequence[Host]) -> None:
    before = os.environ.get(HOME_VARIABLE)
    try:
        for host in made:
            os.environ[HOME_VARIABLE] = str(host.folder)
            if host is made[0]:
                host.agent = enrolment.keygen("agent")["agent"]
                continue
            asked = enrolment.request()
            host.agent = asked["agent"]
            os.environ[HOME_VARIABLE] = str(made[0].folder)
            granted = enrolment.issue(
                asked["request"], role="agent", days=1, topics=(), no_topics=False, calls_max=None
            )
            os.environ[HOME_VARIABLE] = str(host.folder)
            enrolment.accept(granted["grant"])
    finally:
        if before is None:
            os.environ.pop(HOME_VARIABLE, None)
        else:
            os.environ[HOME_VARIABLE] = before


@contextmanager
def _lan(names: Sequence[str]) -> Iterator[None]:
    """A bridge in a namespace of its own, and each of these on it."""
    lan = f"pb{os.getpid()}-lan{next(_numbers)}"
    try:
        _run("ip", "netns", "add", lan)
        _run("ip", "-n", lan, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        _run("ip", "-n", lan, "link", "set", "br0", "up")
        for number, name in enumerate(names, 1):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run(*f"ip -n {lan} link add port{number} type veth peer name eth0 netns {name}".split())
            _run(*f"ip -n {lan} link set port{number} master br0 up".split())
            _run(*f"ip -n {name} address add 10.77.0.{number}/24 dev eth0".split())
            _run(*f"ip -n {name} link set eth0 up".split())
            _run(*f"ip -n {name} route add 224.0.0.0/4 dev eth0".split())
        yield
    finally:
        for name in (*names, lan):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
