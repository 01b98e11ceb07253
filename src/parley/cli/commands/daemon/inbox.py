"""``parley daemon inbox``: what arrived."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET
from msgspec.structs import replace

from parley.cli.call import Call, command
from parley.cli.commands.daemon.options import MeshOption, daemon_client, inbox_app
from parley.cli.plain import plain
from parley.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.wire.daemon_answers import InboxItem, InboxPage

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
    with daemon_client() as client:
        found = _listed(
            client.inbox,
            limit,
            mesh=mesh,
            topic=topic,
            sender=sender,
            since=since,
            unread_only=unread,
            mark_seen=not keep_unread,
        )
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
        found = _listed(partial(client.search_inbox, query), limit, mesh=mesh)
    show(call, found, empty="Nothing was found.")


@command(inbox_app, "seen")
def seen(call: Call, ids: Annotated[list[str], typer.Argument(metavar="ID...")]) -> None:
    """Mark messages as seen."""
    with daemon_client() as client:
        found = client.mark_seen(ids)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"{found.marked_seen} were unseen.")


@command(inbox_app, "delete")
def delete(call: Call, message_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Throw one message away."""
    with daemon_client() as client:
        found = client.delete_message(message_id)
    if call.json:
        call.out.data(plain(found))
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
        found = client.flush_inbox(mesh=mesh, before=before, everything=everything)
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"{found.removed} messages are gone.")


def show(call: Call, found: "InboxPage", *, empty: str = "Nothing has arrived.") -> None:
    """Messages for a person or a program."""
    if call.json:
        call.out.data(plain(found), rows="items")
        return
    rows = [(each.id, each.received_at, each.mesh, each.sender_name, _where(each), _text(each)) for each in found.items]
    call.out.table(["id", "received", "mesh", "from", "to", "message"], rows, empty=empty)


def _where(message: "InboxItem") -> str:
    return f"#{message.topic}" if message.topic else "you" if message.kind == "dm" else message.to


def _text(message: "InboxItem") -> str:
    return "(no key opens this message yet)" if message.body is None else message.body


def _listed(read: "Callable[..., InboxPage]", limit: int, **filters: Any) -> "InboxPage":
    """As many messages as were asked for, however large: one answer holds only so many bytes."""
    found = read(limit=limit, **filters)
    while found.more and len(found.items) < limit:
        rest = read(limit=limit - len(found.items), before=found.cursor, **filters)
        marked = UNSET if rest.marked_seen is UNSET else (found.marked_seen or 0) + rest.marked_seen
        found = replace(rest, items=found.items + rest.items, marked_seen=marked)
    return found
