"""``parley guard``: git says whose leases a commit or a push is in the way of."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from parley.cli.call import Call, command, group
from parley.cli.plain import plain
from parley.core.clock import SystemClock
from parley.core.errors import GuardRefused
from parley.core.exits import Exit

if TYPE_CHECKING:
    from parley.guard.check import Finding
    from parley.guard.git import Repository
    from parley.guard.hooks import HookName

app = group("Let git say whose leases a commit or a push is in the way of.")


@command(app, "install")
def install(call: Call) -> None:
    """Add the check to the pre-commit and pre-push hooks of this repository.

    Hooks that are there stay and run too. What a conflict leads to is set by guard.mode in parley.toml.
    """
    from parley.guard import hooks

    repository = _managed(call)
    changed = [name for name in hooks.NAMES if hooks.install(repository.hooks, name)]
    _tell(call, repository, changed, "installed", "The guard was installed already.")


@command(app, "uninstall")
def uninstall(call: Call) -> None:
    """Take the check out of the hooks again: they become what they were."""
    from parley.guard import hooks

    repository = _repository(call)
    _require_own_hooks(repository)
    changed = [name for name in hooks.NAMES if hooks.uninstall(repository.hooks, name)]
    _tell(call, repository, changed, "uninstalled", "The guard was not installed.")


@command(app, "status")
def status(call: Call) -> int:
    """Show whether the guard is installed in this repository, and beside which hooks; exit with 1 if not."""
    from parley.guard import hooks

    repository = _repository(call)
    found = [hooks.inspect(repository.hooks, name) for name in hooks.NAMES]
    complete = all(hook.state == "installed" for hook in found)
    if call.json:
        listed = [hook._asdict() | {"path": str(hook.path)} for hook in found]
        call.out.data({**_about(repository), "installed": complete, "hooks": listed})
    else:
        rows = [(hook.name, hook.state, "with another hook" if hook.chained else "", hook.path) for hook in found]
        call.out.table(["hook", "state", "", "file"], rows, empty="")
    return Exit.OK if complete else Exit.ERROR


@command(app, "check")
def check(
    call: Call,
    hook: Annotated[
        Literal["pre-commit", "pre-push"],
        typer.Argument(help="What is checked: what is staged, or what the lines on standard input would push."),
    ] = "pre-commit",
    remote: Annotated[str, typer.Argument(metavar="[REMOTE]", help="Where the push goes.")] = "origin",
    url: Annotated[str, typer.Argument(metavar="[URL]", help="Its address; not used.", hidden=True)] = "",
) -> int:
    """Name who holds exclusive leases on what is to be committed or pushed; called by git's hooks.

    Exits with 2 when guard.mode is block and somebody else holds a path; PARLEY_GUARD=off lets it through and tells the
    holder. What cannot be checked passes, with a note.
    """
    del url
    repository = _found(call)
    findings: list[Finding] = []
    notes: list[str] = []
    if repository is not None:
        try:
            findings = _findings(repository, hook, remote)
        except (GuardRefused, OSError) as error:
            notes.append(f"Leases were not checked: {error}")
    return _tell_findings(call, findings, notes, hook)


def _findings(repository: "Repository", hook: "HookName", remote: str) -> "list[Finding]":
    from parley.guard import git
    from parley.guard.check import check as find

    if hook == "pre-commit":
        paths = git.staged_paths(repository.top)
    else:
        paths = git.pushed_paths(repository.top, remote, git.ref_lines(sys.stdin.read()))
    return find(repository, paths, SystemClock())


def _tell_findings(call: Call, findings: "list[Finding]", notes: list[str], hook: "HookName") -> int:
    from parley.guard.check import is_bypassed

    bypassed = is_bypassed(os.environ)
    blocked = not bypassed and any(finding.blocks for finding in findings)
    for finding in findings:
        notes += finding.notes
        if bypassed and finding.hits:
            notes.append(_record(finding, hook))
    if call.json:
        hits = [plain(hit) for finding in findings for hit in finding.hits]
        call.out.data({"blocked": blocked, "bypassed": bypassed, "hits": hits, "notes": notes})
    else:
        _say(call, findings, notes, blocked)
    return Exit.CONFLICT if blocked else Exit.OK


def _say(call: Call, findings: "list[Finding]", notes: list[str], blocked: bool) -> None:
    from parley.guard.check import shown

    for finding in findings:
        for hit in finding.hits:
            reason = f" ({hit.reason})" if hit.reason else ""
            call.out.note(f"parley: {shown(hit.wanted)} is leased by {hit.holder} until {hit.expires_at}{reason}")
    for note in notes:
        call.out.note(f"parley: {note}")
    if blocked:
        call.out.note("parley: stopped. Ask the holder, wait for the end, or let it through with PARLEY_GUARD=off.")


def _record(finding: "Finding", hook: "HookName") -> str:
    from parley.core.errors import ParleyError
    from parley.guard.bypass import record_bypass

    try:
        record_bypass(finding, hook)
    except ParleyError as error:
        return f"The guard was bypassed. That could not be recorded: {error}"
    return "The guard was bypassed, and the holders were told."


def _managed(call: Call) -> "Repository":
    """The repository, if the guard has anything to do in it, and the hooks are its own."""
    from parley.guard.check import contains_workspace

    repository = _repository(call)
    if not contains_workspace(repository, _folder(call)):
        raise GuardRefused(f"{repository.top} contains no workspace, so it has no leases to guard")
    _require_own_hooks(repository)
    return repository


def _require_own_hooks(repository: "Repository") -> None:
    if not repository.owns_hooks:
        error = GuardRefused(f"core.hooksPath leads to {repository.hooks}, which other repositories may use too")
        error.hint = (
            "Call `parley guard check pre-commit` from the hook there, or set core.hooksPath for this repository."
        )
        raise error


def _repository(call: Call) -> "Repository":
    repository = _found(call)
    if repository is None:
        raise GuardRefused("This is not a working tree of a git repository, or git is missing")
    return repository


def _found(call: Call) -> "Repository | None":
    from parley.guard.git import find_repository

    return find_repository(_folder(call))


def _folder(call: Call) -> Path:
    from parley.workspace import discovery

    return call.folder.resolve() if call.folder is not None else discovery.here()


def _tell(call: Call, repository: "Repository", changed: list[str], verb: str, otherwise: str) -> None:
    if call.json:
        call.out.data({**_about(repository), "changed": changed})
    elif changed:
        call.out.line(f"{verb}\t{', '.join(changed)}\t{repository.hooks}")
    else:
        call.out.note(otherwise)


def _about(repository: "Repository") -> dict[str, Any]:
    return {"repository": str(repository.top), "hooks_folder": str(repository.hooks)}
