"""What is done to a file, and what may come of it.

A file is *held* if its server writes acknowledged things to it, or lets nobody else in by it. Whoever holds a file that
is gone must end. Only some strikes destroy what was acknowledged: of a log that was merely removed, the process that
has it open still knows everything.
"""

import contextlib
import os
import random
import shutil
import signal
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from parley.core.exits import Exit
from parley.core.held_files import HeldFiles
from parley.sqlite import FileWatch
from tests.sandbox.ordinary import UID, become_ordinary

Act = Literal["remove", "replace", "truncate", "read_only"]
ACTS: tuple[Act, ...] = ("remove", "replace", "truncate", "read_only")
ENDS = (Exit.WORKSPACE_UNSAFE, Exit.CORRUPT)
"""How a server ends that has lost a file."""
HELD_SHARE = 0.6
"""How often the victim is one of the files that matter most."""
_DATABASE, _LOG, _INDEX, _LOCK = (".db", ".sqlite3"), "-wal", "-shm", ".lock"


@dataclass
class Strike:
    """One thing that was done to one file."""

    path: Path
    act: Act
    content: bytes
    mode: int

    def __str__(self) -> str:
        return f"{self.act} of {'/'.join(self.path.parts[-2:])}"

    @property
    def kind(self) -> str:
        """What the victim is, for counting."""
        if self.path.name.endswith(_DATABASE):
            return "database"
        ends = {_LOG: "log", _INDEX: "index", _LOCK: "lock"}
        return next((kind for end, kind in ends.items() if self.path.name.endswith(end)), "other")

    @property
    def destroys(self) -> bool:
        """Whether acknowledged things may be lost by it."""
        if self.path.name.endswith(_DATABASE):
            return self.act != "read_only"
        return self.path.name.endswith(_LOG) and self.act == "truncate"

    @property
    def must_end(self) -> bool:
        """Whether its server has to end, since it no longer holds what it must."""
        return self.act in ("remove", "replace") and is_held(self.path)

    @property
    def may_end(self) -> bool:
        """Whether its server is allowed to."""
        return self.act != "read_only" and is_held(self.path)

    def end_problems(self, code: int, *, by_itself: bool, stuck: bool) -> list[str]:
        """What is wrong with how the struck server ended: by itself, or when it was asked to."""
        told = code in ENDS or (code < 0 and code != -signal.SIGKILL)  # a map of a file that was cut ends a process
        problems = ["it neither ended nor went on"] if stuck else []
        if self.must_end and not by_itself:
            problems.append("it did not end")
        if by_itself and not self.may_end:
            problems.append(f"it ended by itself, with {code}")
        elif by_itself and not told:
            problems.append(f"it ended with {code}, which does not say why")
        elif not by_itself and code != Exit.OK and not (self.may_end and told):
            problems.append(f"it ended with {code} when it was asked to")
        return problems

    def heal(self) -> None:
        """Puts back what a person could: rights, and files that hold no acknowledged thing."""
        if self.act == "read_only":
            with contextlib.suppress(FileNotFoundError):  # SQLite removes its own at a clean stop
                self.path.chmod(self.mode)
        elif self.act in ("truncate", "replace") and not is_held(self.path) and stat.S_ISREG(self.mode):
            self.path.write_bytes(self.content)


def is_held(path: Path) -> bool:
    """Whether a server holds this file for its life."""
    is_lock = path.name.endswith(_LOCK) and "instances" not in path.parts  # there it only tells of a broker
    return path.name.endswith((*_DATABASE, _LOG, _INDEX)) or is_lock


def strike(folder: Path, rng: random.Random, within: str = "") -> Strike:
    """Chooses a file below the folder, whose path begins with ``within``, and does something to it."""
    while True:
        found = sorted(path for path in folder.rglob("*") if str(path.relative_to(folder)).startswith(within))
        act = rng.choice(ACTS)
        wanted = [path for path in found if _fits(path, act)]
        held = [path for path in wanted if is_held(path)]
        if not wanted:
            continue
        victim = rng.choice(held if held and rng.random() < HELD_SHARE else wanted)
        try:
            return hit(victim, act, rng)
        except FileNotFoundError:
            continue  # it was a file of the moment


def hit(path: Path, act: Act, rng: random.Random) -> Strike:
    """Does it."""
    status = path.lstat()
    is_file = stat.S_ISREG(status.st_mode)
    done = Strike(path, act, path.read_bytes() if is_file else b"", status.st_mode)
    match act:
        case "remove":
            path.unlink()
        case "replace":
            other = path.with_name(f"{path.name}.other")
            shutil.copyfile(path, other)
            shutil.copystat(path, other)
            os.chown(other, status.st_uid, status.st_gid)
            other.replace(path)
        case "truncate":
            os.truncate(path, rng.choice((0, rng.randrange(max(1, status.st_size)))))
        case "read_only":
            path.chmod(status.st_mode & ~0o222)
    return done


def _fits(path: Path, act: Act) -> bool:
    if path.name.endswith((".tmp", ".other", "parley.toml")):
        return False
    if path.is_dir():
        return act == "read_only"
    return path.is_file() or (path.is_socket() and act == "remove")


def give_away(folder: Path) -> None:
    """Lets the ordinary user own the folder and all that is in it."""
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UID, UID, follow_symlinks=False)


def before(folder: Path, *, blind: bool = False) -> "partial[None]":
    """What a server's process does first: it becomes an ordinary user, and may be made ``blind`` to its losses."""
    return partial(_prepare, folder, blind)


def _prepare(folder: Path, blind: bool) -> None:
    os.environ["HOME"] = str(folder)
    if os.getuid() == 0:
        become_ordinary()
    if blind:
        FileWatch.look = lambda self: None
        HeldFiles.look = lambda self: None
