"""``parley daemon inbox``: what arrived."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.call import Call, command
from parley.cli.commands.daemon.options import MeshOption, daemon_client, inbox_app
from parley.core.errors import InvalidInput

if TYPE_CHECKING:
    from parley.client.daemon import DaemonClient

_LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Only the newest so many.")]


@command(inbox_app, "list")
def list_(
    call: Call,
    mesh: MeshOption = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only of this topic.")] = None,
    sender: Annotated[str | None, typer.Option("--from", metavar="NAME", help="A name or a key.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="ISO 8601.")] = None,
    unread: Annotated[bool, typer.Option("--unread", help="Only what nobody has seen.")] = False,
    keep_unread: Annotated[bool, typer.Option("--keep-unread", help="Do not mark what is shown as seen.")] = False,
    limit: _LimitOption = 100,
) -> None:
    """List what arrived, newest first, and mark it as seen."""
    filters: dict[str, Any] = {"mesh": mesh, "topic": topic, "from": sender, "since": since}
    with daemon_client() as client:
        found = _listed(client, "/v1/inbox", limit, **filters, unread_only=unread, mark_seen=not keep_unread)
    show(call, found)


@command(inbox_app, "search")
def search(
    call: Call,
    query: Annotated[str, typer.Argument(metavar="WORDS")],
    mesh: MeshOption = None,
    limit: _LimitOption = 100,
) -> None:
    """Find what arrived by its text."""
    with daemon_client() as client:
        found = _listed(client, "/v1/inbox/search", limit, q=query, mesh=mesh)
    show(call, found, empty="Nothing was found.")


@command(inbox_app, "seen")
def seen(call: Call, ids: Annotated[list[str], typer.Argument(metavar="ID...")]) -> None:
    """Mark messages as seen."""
    with daemon_client() as client:
        found = client.post("/v1/inbox/seen", {"ids": ids})
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{found['marked_seen']} were unseen.")


@command(inbox_app, "delete")
def delete(call: Call, message_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Throw one message away."""
    with daemon_client() as client:
        found = client.delete(f"/v1/inbox/{message_id}")
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{message_id} is gone.")


@command(inbox_app, "flush")
def flush(
    call: Call,
    mesh: MeshOption = None,
    before: Annotated[str | None, typer.Option("--before", metavar="TIME", help="ISO 8601.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that arrived.")] = False,
) -> None:
    """Throw away what arrived in a mesh, before a time, or all of it."""
    if mesh is None and before is None and not everything:
        raise InvalidInput("Name a mesh or a time, or say --all")
    with daemon_client() as client:
        found = client.delete("/v1/inbox", mesh=mesh, before=before, all=everything or None)
    if call.json:
        call.out.data(found)
    else:
        call.out.line(f"{found['removed']} messages are gone.")


def show(call: Call, found: dict[str, Any], *, empty: str = "Nothing has arrived.") -> None:
    """Messages for a person or a program."""
    if call.json:
        call.out.data(found, rows="items")
        return
    rows = [
        (each["id"], each["received_at"], each["mesh"], each["sender_name"], _where(each), _text(each))
        for each in found["items"]
    ]
    call.out.table(["id", "received", "mesh", "from", "to", "message"], rows, empty=empty)


def _where(message: dict[str, Any]) -> str:
    return f"#{message['topic']}" if message["topic"] else "you" if message["kind"] == "dm" else message["to"]


def _text(message: dict[str, Any]) -> str:
    return "(no key opens this message yet)" if message["undecryptable"] else str(message["body"])


def _listed(client: "DaemonClient", path: str, limit: int, **filters: Any) -> dict[str, Any]:
    """As many messages as were asked for, however large: one answer holds only so many bytes."""
    found = client.get(path, limit=limit, **filters)
    while found.get("more") and len(found["items"]) < limit:
        rest = client.get(path, limit=limit - len(found["items"]), before=found["cursor"], **filters)
        together = {name: found[name] + rest[name] for name in ("items", "marked_seen") if name in found}
        found = {**rest, **together}
    return found
