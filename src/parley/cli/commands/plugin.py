"""``parley plugin``: make, test and list plugins."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from parley.cli.call import Call, command, group, load_app
from parley.core.clock import SystemClock
from parley.core.errors import InvalidInput, PluginFailed, WorkspaceNotFound

if TYPE_CHECKING:
    from parley.workspace.layout import Workspace

app = group("Make, test and list plugins.")


@command(app, "new")
def new(
    call: Call,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    kind: Annotated[
        Literal["linkifier", "extractor"],
        typer.Option("--type", help="Mark parts of messages, or add attachments to topics."),
    ] = "linkifier",
    folder: Annotated[Path | None, typer.Option("--dir", metavar="FOLDER", help="Where to write it.")] = None,
) -> None:
    """Write a small plugin that works, and a text to test it on.

    Without --dir they go to the folder plugins of the workspace, or of this folder where there is no workspace.
    """
    workspace = _workspace(call)
    root = None if workspace is None else workspace.root
    made = load_app("plugin_new").new_plugin(folder or (root or Path()) / "plugins", name, kind, root)
    if call.json:
        call.out.data({"module": str(made.module), "sample": str(made.sample), "settings": made.settings})
        return
    call.out.line(str(made.module))
    call.out.line(str(made.sample))
    call.out.note(
        f"\nTest it:\n  parley plugin test {made.module} --file {made.sample}\n\n"
        f"Add it to parley.toml, then run `parley trust`:\n\n{made.settings}"
    )


@command(app, "test")
def try_out(
    call: Call,
    plugin: Annotated[str, typer.Argument(metavar="NAME|PATH", help="A plugin of parley.toml, or a module.")],
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Run it on this text.")] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="ID", help="Run it on this message.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Run it on this file's text; - is standard input."),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="JSON", help="Its config, if parley.toml does not name it.")
    ] = None,
) -> None:
    """Run a plugin once, in the sandbox as the hub would, and show what it finds.

    Nothing is stored, and it need not be trusted. Exits with 1 when the plugin fails.
    """
    trying = load_app("plugin_trial")
    trial = trying.find_trial(_workspace(call), plugin, config)
    subject = _subject(call, trying, text, message, file)
    try:
        report: dict[str, Any] = trying.run(trial, subject, SystemClock())
    except PluginFailed as error:
        if not call.json:
            _show_printed(call, str(error.details["printed"]))
        raise
    if call.json:
        call.out.data(report)
    else:
        _show_report(call, report)


@command(app, "list")
def list_all(call: Call) -> None:
    """List the workspace's plugins: whether each can run, and how it is in the running hub."""
    report: dict[str, Any] = load_app("plugins").list_plugins(call.workspace())
    if call.json:
        call.out.data(report, rows="plugins")
        return
    rows = [(each["name"], each["type"], each["source"], *_health(each), _trouble(each)) for each in report["plugins"]]
    columns = ["name", "type", "source", "state", "waiting", "failed", "problem"]
    call.out.table(columns, rows, empty="parley.toml names no plugins.")
    for lack in report["sandbox_lacks"]:
        call.out.note(f"The sandbox cannot be built here: {lack}")


def _health(plugin: dict[str, Any]) -> tuple[str, object, object]:
    hub = plugin["hub"]
    if hub is None:
        return plugin["state"], None, None
    state = hub["state"] if plugin["state"] == "ready" else plugin["state"]
    return state, hub["waiting"], hub["failed"]


def _trouble(plugin: dict[str, Any]) -> str:
    """Why it does not run, or what went wrong when it last did."""
    hub: dict[str, Any] = plugin["hub"] or {}
    troubled = hub.get("failed") or hub.get("state") == "paused"
    return str(plugin["problem"] or (hub.get("last_error") if troubled else None) or "")


def _workspace(call: Call) -> "Workspace | None":
    """The workspace, where there is one; a plugin can be written and tested without."""
    try:
        return call.workspace()
    except WorkspaceNotFound:
        if call.folder is not None:
            raise
        return None


def _subject(call: Call, trying: Any, text: str | None, message: str | None, file: Path | None) -> Any:
    if sum(given is not None for given in (text, message, file)) != 1:
        raise InvalidInput("Give one of --text, --message and --file.")
    if message is not None:
        return trying.stored_message(call.workspace(), message)
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    return trying.sample_message(text, SystemClock())


def _show_report(call: Call, report: dict[str, Any]) -> None:
    _show_printed(call, report["printed"])
    rows = [
        (each["kind"], f"{each['span']['start']}-{each['span']['end']}", each["text"], _json(each["data"]))
        for each in report["enrichments"]
    ]
    rows += [(each["kind"], "", each["key"] or "", _json(each["value_json"])) for each in report["attachments"]]
    columns = ["kind", "at", "text", "data"] if report["type"] == "linkifier" else ["kind", "at", "key", "value"]
    call.out.table(columns, rows, empty="It found nothing.")
    call.out.note(f"It took {report['seconds']:.3f} s, and {report['start_seconds']:.3f} s to start.")


def _show_printed(call: Call, printed: str) -> None:
    if printed.strip():
        call.out.note(f"It printed:\n{printed.rstrip()}\n")


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
