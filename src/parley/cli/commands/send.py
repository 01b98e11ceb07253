"""``parley send``: a message to somebody on another machine."""

import sys
from typing import Annotated, Any, Literal

import msgspec
import typer

from parley.cli.call import Call, command, load_app, single
from parley.cli.commands.daemon.options import MeshOption, daemon_client
from parley.cli.plain import plain
from parley.core.daemon_errors import DaemonNotRunning
from parley.core.ids import new_uuid

app = single()


@command(app, "send")
def send(
    call: Call,
    to: Annotated[str, typer.Argument(metavar="TO", help="A member's name or key, '#TOPIC', '@GROUP' or '*'.")],
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="'-' reads it from the standard input.")],
    mesh: MeshOption = None,
    priority: Annotated[
        Literal["now", "next", "low"], typer.Option("--priority", help="Who is busy gets only now.")
    ] = "next",
    reply_to: Annotated[
        str | None,
        typer.Option(
            "--reply-to", metavar="ID", help="The message that this answers, by its id in the inbox or at the broker."
        ),
    ] = None,
    meta: Annotated[str | None, typer.Option("--meta", metavar="JSON", help="An object that travels with it.")] = None,
    mentions: Annotated[
        list[str] | None, typer.Option("--mention", metavar="KEY", help="The key of a member; may be repeated.")
    ] = None,
    to_session: Annotated[
        str | None, typer.Option("--to-session", metavar="ID", help="Only for this session of the recipient.")
    ] = None,
    client_message_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The message's own id: sent again, it has one effect.")
    ] = None,
    no_start: Annotated[bool, typer.Option("--no-start", help="Do not start a daemon; exit with 3 instead.")] = False,
) -> None:
    """Send a message to another machine.

    It goes to a member, a topic, a group or everybody of a mesh.

    It is on this machine's disk when the command returns, and is sent as soon as the broker can be reached. If no
    daemon is running, one is started, except on a build machine (CI) unless PARLEY_DAEMON_HOME names a folder.
    """
    body = sys.stdin.read() if message == "-" else message
    options: dict[str, Any] = {
        "mesh": mesh,
        "priority": priority,
        "reply_to_id": reply_to,
        "meta": None if meta is None else msgspec.Raw(meta.encode()),
        "mentions": mentions or [],
        "to_session": to_session,
        "client_message_id": client_message_id or new_uuid(),  # one for both tries: the first may have had its effect
    }
    try:
        with daemon_client() as client:
            found = client.send(to, body, **options)
    except DaemonNotRunning:
        if no_start:
            raise
        load_app("daemon.start").start_detached()
        with daemon_client() as client:
            found = client.send(to, body, **options)
    if call.json:
        call.out.data({**plain(found), "delivery": found.status or "accepted", "status": "ok"})
    elif found.duplicate:
        call.out.line(f"{found.client_message_id} was sent before; the broker has it.")
    else:
        call.out.line(f"{found.client_message_id} is {found.status}.")
