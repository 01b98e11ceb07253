"""``parley init``: make a workspace."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.call import Call, command, load_app, single

app = single()


@command(app, "init")
def init(
    call: Call,
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Where; else this folder.")] = None,
) -> None:
    """Make a workspace here.

    It makes the folder .parley with an empty database; one that is there already stays as it is.
    """
    from parley.workspace.discovery import here

    workspace, made = load_app("make").make_workspace(folder or call.folder or here())
    if call.json:
        call.out.data({"workspace_root": str(workspace.root), "db_path": str(workspace.db), "created": made})
    elif made:
        call.out.line(f"Made the workspace {workspace.root}. Start its hub with `parley up`.")
    else:
        call.out.line(f"{workspace.root} is a workspace already.")
