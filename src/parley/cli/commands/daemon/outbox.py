"""``parley daemon outbox``: what is to be sent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.call import Call, command
from parley.cli.commands.daemon.options import MeshOption, daemon_client, outbox_app
from parley.cli.plain import plain
from parley.core.errors import InvalidInput

if TYPE_CHECKING:
    from parley.wire.daemon_answers import OutboxItem, RowStatus

_RowArgument = Annotated[str | None, typer.Argument(metavar="ID", help="A row, by its id or its message's id.")]
_RowOption = Annotated[str | None, typer.Option("--id", metavar="ID", help="The same as ID.")]
_ForceOption = Annotated[bool, typer.Option("--force", help="Also while it is in flight and may still arrive.")]


@command(outbox_app, "list")
def list_(
    call: Call,
    pending: Annotated[bool, typer.Option("--pending", help="Those that wait.")] = False,
    inflight: Annotated[bool, typer.Option("--inflight", help="Those that were sent and not answered.")] = False,
    done: Annotated[bool, typer.Option("--done", help="Those that the broker has.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Those that could not be sent.")] = False,
    aborted: Annotated[bool, typer.Option("--aborted", help="Those that were given up.")] = False,
    mesh: MeshOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Only the newest so many.")] = 50,
) -> None:
    """List rows, newest first.

    What is done is with the broker; of how many recipients how many have it is said where the broker can be asked.
    """
    wanted: dict[RowStatus, bool] = {
        "pending": pending,
        "inflight": inflight,
        "done": done,
        "dead": failed,
        "aborted": aborted,
    }
    chosen: list[RowStatus] = [status for status, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        raise InvalidInput("Choose one state")
    with daemon_client() as client:
        found = client.outbox(status=chosen[0] if chosen else None, mesh=mesh, limit=limit, reached=True)
    if call.json:
        call.out.data(plain(found), rows="items")
        return
    rows = [
        (each.id, each.status, each.mesh, each.to, each.attempts, _reached(each), each.last_error or "")
        for each in found.items
    ]
    call.out.table(["id", "status", "mesh", "to", "tries", "reached", "error"], rows, empty="The outbox is empty.")


@command(outbox_app, "inspect")
def inspect(call: Call, row: _RowArgument = None, row_id: _RowOption = None) -> None:
    """Show one row, with all that it replaced and all that replaced it."""
    with daemon_client() as client:
        found = client.outbox_row(_one(row, row_id))
    shown: dict[str, Any] = plain(found)
    if call.json:
        call.out.data(shown)
        return
    for name, value in shown.items():
        if name != "chain" and value not in (None, ""):
            call.out.line(f"{name.replace('_', ' ')}: {value}")
    if len(found.chain) > 1:
        call.out.line("chain: " + " → ".join(f"{each.id} ({each.status})" for each in found.chain))


@command(outbox_app, "requeue")
def requeue(
    call: Call,
    row: _RowArgument = None,
    row_id: _RowOption = None,
    new_client_id: Annotated[
        str | None, typer.Option("--new-client-id", "--new-id", metavar="ID", help="The message's new id.")
    ] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Make a new id up; so it is without --new-client-id.")] = False,
    patch_payload: Annotated[
        Path | None, typer.Option("--patch-payload", metavar="FILE", help="Send this text instead.", exists=True)
    ] = None,
    force: _ForceOption = False,
) -> None:
    """Send a row's message anew under a new id. The old row is retired, and its id never comes free."""
    if auto and new_client_id is not None:
        raise InvalidInput("Give --auto or --new-client-id, not both")
    message = None if patch_payload is None else patch_payload.read_text(encoding="utf-8")
    with daemon_client() as client:
        found = client.requeue(_one(row, row_id), new_client_message_id=new_client_id, message=message, force=force)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"{found.aborted_row_id} is retired; {found.new_row_id} takes its place.")


@command(outbox_app, "drop")
def drop(call: Call, row: _RowArgument = None, row_id: _RowOption = None, force: _ForceOption = False) -> None:
    """Give a message up. Its row stays, and its id stays bound to it."""
    with daemon_client() as client:
        found = client.drop(_one(row, row_id), force=force)
    if call.json:
        call.out.data({"row": plain(found)})
    else:
        call.out.line(f"{found.id} is given up.")


@command(outbox_app, "prune")
def prune(
    call: Call,
    older_than_days: Annotated[
        float, typer.Option("--older-than-days", min=0.0, metavar="DAYS", help="Only what is older.")
    ] = 0.0,
    confirm: Annotated[bool, typer.Option("--confirm", help="Really do it.")] = False,
) -> None:
    """Forget what messages said that were sent or given up. Their ids and what became of them stay."""
    if not confirm:
        raise InvalidInput("Say --confirm to forget what old messages said")
    with daemon_client() as client:
        found = client.prune_outbox(older_than_days)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"{found.pruned} messages were forgotten.")


def _reached(item: "OutboxItem") -> str:
    """How far a message has come, as far as anybody can say now."""
    if item.status != "done":
        return ""
    if not item.reached:
        return "accepted by the broker"
    if not item.reached.recipients:
        return "accepted by the broker, for nobody"
    dead = f", {item.reached.dead} never will be" if item.reached.dead else ""
    unreadable = f", {item.reached.undecryptable} cannot open it" if item.reached.undecryptable else ""
    return f"delivered to {item.reached.delivered} of {item.reached.recipients}{unreadable}{dead}"


def _one(row: str | None, row_id: str | None) -> str:
    if (row is None) == (row_id is None):
        raise InvalidInput("Name one row, by its id")
    return row or row_id or ""
