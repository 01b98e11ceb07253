"""``parley inbox``: what arrived from other machines."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, single
from parley.cli.commands.daemon.inbox import show
from parley.cli.commands.daemon.options import MeshOption, daemon_client

app = single()


@command(app, "inbox")
def inbox(
    call: Call,
    mesh: MeshOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what was seen before.")] = False,
    keep_unread: Annotated[bool, typer.Option("--keep-unread", help="Do not mark what is shown as seen.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Only the newest so many.")] = 100,
    wait: Annotated[
        int, typer.Option("--wait", metavar="SECONDS", min=0, max=86_400, help="If there is nothing, until there is.")
    ] = 0,
) -> None:
    """Show what arrived from other machines.

    That is what was not seen yet, newest first. With --wait it ends as soon as something is there, and after so many
    seconds at the latest.
    """
    with daemon_client() as client:
        found = client.wait_for_messages(
            wait, mesh=mesh, unread_only=not everything, mark_seen=not keep_unread, limit=limit
        )
    show(call, found)
