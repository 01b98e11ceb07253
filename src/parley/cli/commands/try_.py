"""``parley try``: a guided tour for people who have five minutes."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.call import Call, command, load_app, single

app = single()


@command(app, "try")
def try_parley(
    call: Call,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Make the workspace here and keep it.")
    ] = None,
    pause: Annotated[
        bool, typer.Option("--pause/--no-pause", help="Wait for Enter after each step, if this is a terminal.")
    ] = True,
    open_page: Annotated[bool, typer.Option("--open", help="Open the hub's page in the browser, to watch it.")] = False,
) -> None:
    """Take a tour of five minutes, with simulated agents.

    A hub starts in a temporary workspace, and agents divide a piece of work in it; each step says what happened.
    """
    tour_app = load_app("tour")
    pause = pause and sys.stdin.isatty() and sys.stderr.isatty() and not call.json
    told: list[dict[str, object]] = []
    with tour_app.open_tour(keep) as tour:
        page = tour.page
        root = tour.root
        if not call.json:
            call.out.line(f"The hub of this tour has a page; this link logs you in, once: {page}")
        if open_page:
            typer.launch(page)
        for number, step in enumerate(tour.steps(), 1):
            lines = step.happen()
            look = tour_app.command_line(root, step.look)
            told.append({"title": step.title, "lines": lines, "command": look})
            if call.json:
                continue
            call.out.line("")
            call.out.line(step.title, sign=f"{number}. ", color="green")
            for line in lines:
                call.out.line(f"   {line}")
            if pause or keep is not None:  # else the workspace is gone before anybody could type it
                call.out.line(f"   $ {look}")
            if pause:
                call.out.note("   Enter goes on …")
                sys.stdin.readline()
    if call.json:
        call.out.data({"steps": told, "workspace_root": str(keep) if keep is not None else None})
        return
    call.out.line("")
    if keep is not None:
        call.out.line(f"The workspace stays in {keep}: `parley up --workspace {keep}` starts its hub again.")
    call.out.line("That was all. `parley setup` teaches your own agents to take part; `parley up` starts a hub here.")
