"""Run as a program: commands that are killed before each step that they take in the folder, and what is left then.

Each command is called again and again, in a process of its own that ends itself with SIGKILL before its first step on a
file, before its second, and so on, until it gets through. After each the folder must be one that the command, called
once more, makes right, with nothing lost that was there. Prints how often each command was killed.

With ``torn`` behind the folder, files are written in place, and it must fail.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from parley.app import bus
from parley.bus import home as bus_files
from parley.bus.home import HOME_VARIABLE, BusHome
from parley.bus.standing import load_standing

STEPS = frozenset({"open", "os.link", "os.rename", "os.remove", "os.mkdir"})


def main(folder: Path) -> None:
    first = folder / "first"
    at(first)
    kills = {"keygen": killed_everywhere(first, lambda: bus.keygen("office"), has_keys)}
    before = load_standing(BusHome(first))
    revoked = [bytes([number]).hex() * 32 for number in range(2)]
    bus.revoke(revoked[:1], everything=False)

    def still_revoked(home: BusHome) -> None:
        found = {each.hex() for each in load_standing(home).revocations.revoked}
        assert {revoked[0]} <= found <= {*revoked}
        assert load_standing(home)[:3] == before[:3]

    kills["revoke"] = killed_everywhere(first, lambda: bus.revoke(revoked[1:], everything=False), still_revoked)
    kills["revoke --all"] = killed_everywhere(first, lambda: bus.revoke((), everything=True), has_keys)
    assert bus.keygen("office")["standing"] == "valid"
    kills["accept"] = killed_accepting(folder / "second", first)
    print(json.dumps(kills))


def killed_accepting(second: Path, first: Path) -> int:
    """A machine that is let in twice: it has its old grant or its new one."""
    at(second)
    asked = bus.request()["request"]
    at(first)
    old, new = (
        bus.issue(asked, role=role, days=days, topics=(), no_topics=False, calls_max=None)["grant"]
        for role, days in (("old", 1), ("new", 2))
    )
    at(second)
    bus.accept(old)

    def has_one(home: BusHome) -> None:
        grant = load_standing(home).grant
        assert grant is not None
        assert grant.line() in (old, new)

    return killed_everywhere(second, lambda: bus.accept(new), has_one)


def has_keys(home: BusHome) -> None:
    """What there is of keys can be read."""
    load_standing(home)


def killed_everywhere(folder: Path, command: Callable[[], Any], sound: Callable[[BusHome], None]) -> int:
    """How often the command was killed before it got through; the folder is then as it leaves it."""
    kept = folder.with_name("kept")
    for step in count(1):
        if folder.exists():
            shutil.copytree(folder, kept, dirs_exist_ok=True)
        ended = ends(folder, command, step)
        if os.WIFEXITED(ended):
            assert os.WEXITSTATUS(ended) == 0
            shutil.rmtree(kept, ignore_errors=True)
            return step - 1
        home = BusHome(folder)
        sound(home)
        keys = [path.read_bytes() for path in (home.user_key, home.agent_key) if path.exists()]
        command()
        sound(home)
        assert [path.read_bytes() for path in (home.user_key, home.agent_key) if path.exists()][: len(keys)] == keys
        assert not list(folder.glob(".*.key.*.tmp")), "a second name of a key"
        shutil.rmtree(folder)
        if kept.exists():
            kept.rename(folder)
    raise AssertionError


def ends(folder: Path, command: Callable[[], Any], step: int) -> int:
    """How a process ends that runs the command and kills itself before this step in the folder."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    left = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in STEPS and str(arguments[0]).startswith(str(folder)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    try:
        command()
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os._exit(1)
    os._exit(0)


def write_in_place(path: Path, data: bytes) -> None:
    """What ``write_atomic`` must not be."""
    with path.open("wb") as file:
        path.chmod(0o600)
        path.parent.joinpath("step").touch()
        file.write(data)


def at(folder: Path) -> None:
    """What is called from now on is called on this machine."""
    os.environ[HOME_VARIABLE] = str(folder)


if __name__ == "__main__":
    if "torn" in sys.argv:
        bus_files.write_atomic = write_in_place  # type: ignore[assignment]
    main(Path(sys.argv[1]))
