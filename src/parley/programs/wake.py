"""``parley hook``: what an agent program calls at the start, after a tool and before it stops.

A hook is a guest in somebody else's program. It answers within a moment or not at all, says nothing when there is
nothing new, and whatever goes wrong in it ends with exit code 0 and an empty standard output; the reason is in
``.parley/logs/hooks.log``. It reads the workspace's file, starts no hub and asks none.

It is called after every tool, so it does no more than it must: as long as the database's files have not changed it
loads nothing but the standard library.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from parley.programs.contracts import MOMENTS, Called, read_call, render_answer
from parley.programs.marks import Mark, Told, stamp

if TYPE_CHECKING:
    import apsw

    from parley.workspace.layout import Workspace

BUDGET_SECONDS: Final = 3.0
"""After this long a hook gives up; programs wait for it meanwhile."""
BUDGET_VARIABLE: Final = "PARLEY_HOOK_SECONDS"
"""Names another budget, for a machine on which everything takes longer."""
_PAYLOAD_BYTES_MAX: Final = 16 * 1024 * 1024
_LOG_BYTES_MAX: Final = 256 * 1024


def answer(program: str, moment: str, *, debug: bool = False) -> int:
    """Answers one call of a program on standard input and output. Always returns 0."""
    _give_up_in_time()
    workspaces: list[Workspace] = []
    try:
        _tell_news(program, moment, workspaces)
    except BaseException as error:
        _log(workspaces, f"{program} {moment}: {type(error).__name__}: {error}", debug=debug)
    return 0


def plain_call(args: Sequence[str]) -> tuple[str, str] | None:
    """The program and the moment of a call in the form that ``parley setup`` writes; None for any other."""
    if len(args) == 3 and args[0] in MOMENTS and args[1] == "--program":
        return args[2], args[0]
    return None


def _tell_news(program: str, moment: str, workspaces: "list[Workspace]") -> None:
    from parley.workspace import discovery

    payload: Any = json.loads(sys.stdin.buffer.read(_PAYLOAD_BYTES_MAX) or b"{}")
    called = read_call(program, moment, cast("dict[str, Any]", payload) if isinstance(payload, dict) else {})
    if called.is_silent:
        return
    try:
        workspace = _workspace(called)
    except discovery.WorkspaceNotFound:
        return
    workspaces.append(workspace)
    told = Told(workspace.agents, program, called.session)
    now = stamp(workspace.db)  # before the database is read, so that nothing falls between
    mark = told.load()
    if mark is not None and mark.stamp == now:
        return
    with told.locked() as alone:
        if alone:
            _look(program, moment, called, workspace, told, now)


def _workspace(called: Called) -> "Workspace":
    from parley.workspace import discovery

    named = os.environ.get(discovery.VARIABLE)
    return discovery.discover(None if named else called.folder)


def _look(program: str, moment: str, called: Called, workspace: "Workspace", told: Told, now: list[int]) -> None:
    from parley.programs.catalogue import PROGRAMS
    from parley.programs.news import line
    from parley.programs.reading import news_since
    from parley.workspace.reading import open_reading

    mark = told.load()
    with open_reading(workspace) as reading:
        latest = _latest(reading.connection)
        if mark is not None and (mark.db_id, mark.event_id) == (reading.db_id, latest):
            told.save(mark._replace(stamp=now))
            return
        agent = _agent(workspace, program)
        since = mark.event_id if mark is not None and mark.db_id == reading.db_id else None
        since = told.latest_of(agent, reading.db_id) if since is None else since
        news, titles = news_since(reading.connection, agent, since, latest)
    if moment == "before-stop" and not (news.is_pressing or news.is_empty):
        return  # it can wait for the next start, or the next tool
    if not called.has_just_looked and not news.is_empty:
        event = PROGRAMS[program].moments[cast("Any", moment)]
        sys.stdout.write(json.dumps(render_answer(program, moment, event, line(news, titles))) + "\n")
        sys.stdout.flush()  # first told, then marked as told: better twice than never
    told.save(Mark(agent, reading.db_id, latest, now))


def _latest(connection: "apsw.Connection") -> int:
    from parley.workspace.queries.events import latest_event_id

    return latest_event_id(connection)


def _agent(workspace: "Workspace", program: str) -> str:
    from parley.client.identity import whoami

    return whoami(workspace, program=program).name


def _give_up_in_time() -> None:
    def give_up(_number: int, _frame: object) -> None:
        os._exit(0)  # nothing was said yet, and nothing holds this process up

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _budget_seconds())


def _budget_seconds() -> float:
    try:
        return max(0.1, min(600.0, float(os.environ.get(BUDGET_VARIABLE, BUDGET_SECONDS))))
    except ValueError:
        return BUDGET_SECONDS


def _log(workspaces: "list[Workspace]", text: str, *, debug: bool) -> None:
    """One line where a person finds it. A log that cannot be written is no reason to fail."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    entry = f"{now} {' '.join(text.split())[:500]}\n"
    if debug:
        sys.stderr.write(entry)
    with contextlib.suppress(OSError):
        for workspace in workspaces:
            path: Path = workspace.logs / "hooks.log"
            full = path.exists() and path.stat().st_size > _LOG_BYTES_MAX
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if full else os.O_APPEND), 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(entry)
