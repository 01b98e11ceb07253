"""``parley backup``: a copy of the database."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.call import Call, command, single
from parley.core.clock import SystemClock

app = single()


@command(app, "backup")
def backup(
    call: Call,
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="The new file; else one in the workspace's backups folder.")
    ] = None,
) -> None:
    """Copy the database, also while a hub is running.

    The copy is one consistent file that can be opened by itself. To restore it, stop the hub and put it in the place of
    the database.
    """
    from parley.sqlite import backup_name, online_backup

    workspace = call.workspace()
    if target is None:
        workspace.backups.mkdir(mode=0o700, exist_ok=True)
        target = workspace.backups / backup_name(workspace.db, "manual", SystemClock().now_ms()).name
    target = target.absolute()
    online_backup(workspace.db, target)
    size = target.stat().st_size
    if call.json:
        call.out.data({"backup": str(target), "bytes": size})
    else:
        call.out.line(str(target))
