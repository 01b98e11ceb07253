"""``parley pipeline report``: how the agents work, as a page to look at."""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.commands.pipeline.options import PipelineCall, pipeline_command

OpenOption = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write it here; else report.html in the lake.")
]


@pipeline_command("report")
def report(call: PipelineCall, open_it: OpenOption = False, out: OutOption = None) -> None:
    """Draw how the agents work, in one HTML file that needs no network.

    It shows the lake's tables as the last run left them.
    """
    work = call.work("report")
    with call.progress() as progress:
        made: dict[str, Any] = work.run_report(call.place, progress, out)
    show_report(call, made, open_it)


def show_report(call: PipelineCall, made: dict[str, Any], open_it: bool) -> None:
    """Prints where the report is, or all that is known of it, and opens it if that was asked for."""
    if open_it:
        made["opened"] = _open(Path(made["report"]))
    if call.json:
        call.out.data(made)
        return
    call.out.line(made["report"])
    if open_it and not made["opened"]:
        call.out.note("No browser could be opened here. The file can be opened in any.")


def _open(path: Path) -> bool:
    import webbrowser

    return webbrowser.open(path.as_uri())
