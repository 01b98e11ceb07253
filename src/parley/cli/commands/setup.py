"""``parley setup``: tell an agent program of Parley, or take it back."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from parley.cli.call import Call, command, single
from parley.core.errors import InvalidInput, WorkspaceNotFound
from parley.core.exits import Exit

if TYPE_CHECKING:
    from parley.programs.catalogue import Place
    from parley.programs.setup import Planned

app = single()


@command(app, "setup")
def setup(
    call: Call,
    program: Annotated[
        str | None,
        typer.Argument(metavar="[claude-code|codex|cursor|gemini|opencode]", help="The program; without it, a list."),
    ] = None,
    scope: Annotated[
        Literal["project", "user"],
        typer.Option("--scope", help="For this project, in files that can be committed, or for all of yours."),
    ] = "project",
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if something is amiss.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would change.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take it back: the files become what they were.")] = False,
    absolute: Annotated[
        bool, typer.Option("--absolute", help="Write the full path of this parley instead of its name.")
    ] = False,
) -> int:
    """Set an agent program up for Parley, check it, or take it back.

    It gets its tools, its wake-up hooks, and a short primer. Run it again after an upgrade, or when --check finds that
    something has drifted. What else is in the files stays as it is, to the last byte.
    """
    from parley.programs.catalogue import PROGRAMS

    if check and (dry_run or remove):
        raise InvalidInput("--check goes alone.")
    place = _place(call, scope, absolute)
    if program is None:
        return _overview(call, place)
    if program not in PROGRAMS:
        error = InvalidInput(f"No program {program!r} is known", programs=list(PROGRAMS))
        error.hint = f"Known are {', '.join(PROGRAMS)}."
        raise error
    return _one(call, program, place, check=check, dry_run=dry_run, remove=remove)


def _one(call: Call, name: str, place: "Place", *, check: bool, dry_run: bool, remove: bool) -> int:
    from parley.programs.catalogue import PROGRAMS
    from parley.programs.record import Record
    from parley.programs.setup import apply, forget, plan
    from parley.workspace.trust import parley_home

    record = Record(parley_home())
    if check or dry_run:
        planned = plan(PROGRAMS[name], place, "remove" if remove else "install", record.read())
    else:
        with record.locked():
            planned = plan(PROGRAMS[name], place, "remove" if remove else "install", record.read())
            apply(planned, place, record)
            if remove:
                forget(planned, record)
    report: dict[str, Any] = {"program": name, "scope": place.scope, "folder": str(place.folder)}
    if check:
        return _tell_check(call, report, planned)
    if call.json:
        files = [{**_file(each), "changed": each.changes, "diff": each.diff()} for each in planned]
        call.out.data({**report, "dry_run": dry_run, "removed": remove, "files": files})
    elif dry_run:
        sys.stdout.write("".join(each.diff() for each in planned))
    else:
        _tell_done(call, PROGRAMS[name].title, planned, remove)
        if not remove:
            _tell_next(call, PROGRAMS[name].note, place)
    return Exit.OK


def _tell_check(call: Call, report: dict[str, Any], planned: "list[Planned]") -> int:
    amiss = any(each.state != "ok" for each in planned)
    if call.json:
        files = [{**_file(each), "diff": each.diff()} for each in planned]
        call.out.data({**report, "status": "drifted" if amiss else "ok", "files": files})
    else:
        call.out.table(
            ["state", "file", "holds"],
            [(each.state, each.path, ", ".join(each.parts)) for each in planned],
            empty="Nothing to check.",
        )
        if any(each.gives_up_path for each in planned):
            call.out.note("Parley is called by its path here, as --absolute writes it; check with --absolute, too.")
    return Exit.ERROR if amiss else Exit.OK


def _tell_done(call: Call, title: str, planned: "list[Planned]", remove: bool) -> None:
    changed = [each for each in planned if each.changes]
    for each in changed:
        verb = "removed" if each.after is None else "made" if each.before is None else "changed"
        call.out.line(f"{verb}\t{each.path}")
    if not remove and any(each.gives_up_path for each in changed):
        call.out.note("Parley was called by its path here and is now called by its name; --absolute writes the path.")
    if not changed:
        call.out.note(f"{title} was {'not set up here' if remove else 'set up already'}.")


def _tell_next(call: Call, note: str, place: "Place") -> None:
    """What the user still has to do."""
    from parley.workspace import discovery

    if note:
        call.out.note(note)
    if place.scope == "project":
        try:
            discovery.at(place.folder)
        except WorkspaceNotFound:
            call.out.note(f"{place.folder} is not a workspace yet; `parley up --detach` makes it one.")


def _overview(call: Call, place: "Place") -> int:
    """Which programs are set up at this place."""
    from parley.core.errors import SetupRefused
    from parley.programs.catalogue import PROGRAMS
    from parley.programs.record import Record
    from parley.programs.setup import plan
    from parley.workspace.trust import parley_home

    known = Record(parley_home()).read()
    rows: list[dict[str, str]] = []
    for program in PROGRAMS.values():
        try:
            states = {each.state for each in plan(program, place, "install", known) if "primer" not in each.parts}
        except SetupRefused:
            states = {"unreadable"}
        state = states.pop() if len(states) == 1 else "drifted"
        rows.append({"program": program.name, "title": program.title, "state": state})
    if call.json:
        call.out.data({"scope": place.scope, "folder": str(place.folder), "programs": rows})
    else:
        call.out.table(["program", "state"], [(row["program"], row["state"]) for row in rows], empty="")
    return Exit.OK


def _file(planned: "Planned") -> dict[str, Any]:
    return {"path": str(planned.path), "holds": list(planned.parts), "state": planned.state}


def _place(call: Call, scope: Literal["project", "user"], absolute: bool) -> "Place":
    from parley.programs.catalogue import Place

    parley = str(_own_path()) if absolute else "parley"
    return Place(scope, Path.home() if scope == "user" else _project(call), parley=parley)


def _own_path() -> Path:
    """This very command: as it was called, or beside the interpreter that runs it."""
    for path in (Path(sys.argv[0]).absolute(), Path(sys.executable).with_name("parley")):
        if path.name == "parley" and path.is_file():
            return path
    raise InvalidInput("The path of this parley is not known; leave --absolute out.")


def _project(call: Call) -> Path:
    """The folder of the workspace; where there is none yet, the named folder or this one."""
    from parley.workspace import discovery

    try:
        return call.workspace().root
    except WorkspaceNotFound:
        return (call.folder or discovery.here()).resolve()
