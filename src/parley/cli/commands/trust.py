"""``parley trust``: let the plugins that a workspace brings run."""

import sys
from typing import Annotated, Any

import typer

from parley.cli.call import Call, command, load_app, single
from parley.core.clock import SystemClock
from parley.core.errors import InvalidInput
from parley.core.exits import Exit

app = single()

_MAY = """\
Each runs in a sandbox, in a process of its own:
- It is given every message that is posted or edited here, and its own config.
- It sees none of your files, no other process, not the token, and cannot write to the database.
- It has no network, except where "network: yes" stands above: with it, it can send what it reads anywhere.
- It ends when it takes longer than its deadline or more than its memory.
- What it returns is checked, and then shown to whoever reads the message."""


@command(app, "trust")
def trust(
    call: Call,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust without being asked.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the trust in this workspace away.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List every workspace you trust.")] = False,
) -> int:
    """Let the plugins that a workspace brings run.

    Shows what would run and what it may do, then asks. Any change of parley.toml or of a plugin's files takes the trust
    away again. Plugins that come with Parley need none.
    """
    if yes + revoke + list_all > 1:
        raise InvalidInput("Give one of --yes, --revoke and --list.")
    module = load_app("trust")
    if list_all:
        return _list(call, module.trusted_workspaces())
    if revoke:
        return _revoke(call, module.revoke(call.workspace()))
    seen = module.review(call.workspace())
    if seen.needed and not seen.trusted:
        if not call.json:
            _show(call, seen)
        if not yes and not _agreed(call):
            call.out.note("Nothing was trusted.")
            return Exit.ERROR
        module.trust(seen, SystemClock())
        return _tell(call, module.review(call.workspace()), "Trusted. A running hub starts them by itself.")
    return _tell(call, seen, "They are trusted already." if seen.needed else "No plugin here needs your trust.")


def _tell(call: Call, seen: Any, words: str) -> int:
    if call.json:
        call.out.data(seen.report())
    else:
        call.out.line(words)
    return Exit.OK


def _agreed(call: Call) -> bool:
    if call.json or not sys.stdin.isatty():
        error = InvalidInput("Nobody is there to ask whether these plugins may run")
        error.hint = "Run `parley trust` at a terminal, or add --yes if you know them."
        raise error
    sys.stderr.write("\nTrust them as they are now? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(call: Call, seen: Any) -> None:
    out = call.out
    out.line(f"Plugins that come with {seen.workspace.root}:")
    for plugin in seen.plugins:
        out.line(f"\n  {plugin['name']} ({plugin['type']}{'' if plugin['enabled'] else ', disabled'})")
        for line in _about(plugin):
            out.line(f"    {line}")
    out.line(f"\n{_MAY}")
    if seen.changed:
        out.line(f"\nSince you trusted this workspace: {'; '.join(seen.changed)}.")


def _about(plugin: dict[str, Any]) -> list[str]:
    limits = (
        f"network: {'yes' if plugin['network'] else 'no'}, deadline: {plugin['deadline_seconds']:g} s,"
        f" memory: {plugin['memory_bytes'] // 1024 // 1024} MiB"
    )
    files = [f"{path} (sha256 {digest})" if digest else path for path, digest in plugin["files"].items()]
    problem = [f"problem: {plugin['problem']}"] if plugin["problem"] else []
    return [*files, limits, *problem]


def _list(call: Call, workspaces: list[dict[str, Any]]) -> int:
    if call.json:
        call.out.data({"workspaces": workspaces})
    else:
        rows = [(each["workspace_root"], each["trusted_at"]) for each in workspaces]
        call.out.table(["workspace", "trusted at"], rows, empty="No workspace is trusted.")
    return Exit.OK


def _revoke(call: Call, there: bool) -> int:
    if call.json:
        call.out.data({"revoked": there})
    else:
        words = "The trust is taken away. A running hub keeps its plugins until it stops."
        call.out.line(words if there else "There was none.")
    return Exit.OK
