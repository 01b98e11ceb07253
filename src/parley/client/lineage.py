"""Which program this process was started by, however deep: the way to know an agent by its program.

An agent's tools, its hooks and the commands in its shell are all started by one program. The tools know the agent's
name; they announce it for that program's process, and whoever is started below it takes part under the same name. A
process is known by its number and by when it began, since numbers are used again.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from parley.core import untrusted_json
from parley.core.files import write_atomic
from parley.workspace.layout import Workspace

_PREFIX: Final = "process-"
_TOOLS_PREFIX: Final = "tools-"
_FOLDER_MODE: Final = 0o700
_DEPTH_MAX: Final = 64
_WRAPPERS: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "env", "uv", "uvx", "pipx"})
"""What only starts something else; the program is above it."""
_PROC: Final = Path("/proc")


class Process(NamedTuple):
    """A running process."""

    pid: int
    parent: int
    name: str
    began: str


class Announced(msgspec.Struct, frozen=True):
    """The agent of a program's process."""

    pid: int
    began: str
    name: str
    program: str
    session: str


def ancestors(pid: int | None = None) -> Iterator[Process]:
    """The processes above this one, the nearest first."""
    seen = _process(os.getpid() if pid is None else pid)
    for _ in range(_DEPTH_MAX):
        if seen is None or seen.parent <= 1:
            return
        seen = _process(seen.parent)
        if seen is not None:
            yield seen


def own_program() -> Process | None:
    """The program that started this process, past shells and launchers."""
    return next((process for process in ancestors() if process.name not in _WRAPPERS), None)


def announce(workspace: Workspace, process: Process, *, name: str, program: str, session: str) -> None:
    """Lets whatever is started below this process know whose it is. What ended programs left is cleared away."""
    _write(workspace, _PREFIX, Announced(process.pid, process.began, name, program, session))


def announce_tools(workspace: Workspace, *, name: str, program: str, session: str) -> None:
    """Lets the other tools of an agent know that this process serves it too, whichever program has started it."""
    own = _process(os.getpid())
    if own is not None:
        _write(workspace, _TOOLS_PREFIX, Announced(own.pid, own.began, name, program, session))


def withdraw_tools(workspace: Workspace) -> None:
    """Takes back what this process has announced of its tools."""
    (workspace.agents / f"{_TOOLS_PREFIX}{os.getpid()}.json").unlink(missing_ok=True)


def living(workspace: Workspace) -> list[Announced]:
    """The agents of all programs that run."""
    return _living(workspace, _PREFIX)


def living_tools(workspace: Workspace) -> list[Announced]:
    """The agents of all tools that run; an agent may have several."""
    return _living(workspace, _TOOLS_PREFIX)


def announced(workspace: Workspace) -> Announced | None:
    """The agent of the nearest program above this process that has one."""
    return next(filter(None, (announced_for(workspace, process) for process in ancestors())), None)


def announced_for(workspace: Workspace, process: Process) -> Announced | None:
    """The agent of this very process."""
    found = _read(workspace.agents / f"{_PREFIX}{process.pid}.json")
    return found if found is not None and found.began == process.began else None


def _write(workspace: Workspace, prefix: str, entry: Announced) -> None:
    workspace.agents.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    write_atomic(workspace.agents / f"{prefix}{entry.pid}.json", msgspec.json.encode(entry) + b"\n")
    kept = {f"{prefix}{found.pid}.json" for found in _living(workspace, prefix)}
    for path in workspace.agents.glob(f"{prefix}*.json"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _living(workspace: Workspace, prefix: str) -> list[Announced]:
    found = filter(None, map(_read, workspace.agents.glob(f"{prefix}*.json")))
    return [each for each in found if (now := _process(each.pid)) is not None and now.began == each.began]


def _read(path: Path) -> Announced | None:
    with suppress(OSError, msgspec.MsgspecError):
        return untrusted_json.decode(path.read_bytes(), Announced)
    return None


def _process(pid: int) -> Process | None:
    return _from_proc(pid) if _PROC.is_dir() else _from_ps(pid)


def _from_proc(pid: int) -> Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, also spaces and parentheses.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Process(pid, int(fields[1]), name, fields[19])


def _from_ps(pid: int) -> Process | None:
    argv = ["ps", "-o", "ppid=,lstart=,comm=", "-p", str(pid)]
    try:
        told = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=5).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return None
    if len(told) < 7:
        return None
    return Process(pid, int(told[0]), Path(" ".join(told[6:])).name, " ".join(told[1:6]))
