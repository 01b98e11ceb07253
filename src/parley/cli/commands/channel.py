"""``parley channel``: the long-lived places of a workspace."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import one_of
from parley.cli.plain import plain

app = group("List and create channels.")


@command(app, "list")
def list_channels(call: Call) -> None:
    """List the channels by name."""
    from parley.workspace import queries

    with call.reading() as reading:
        channels = queries.list_channels(reading)
    if call.json:
        call.out.listing("channels", plain(channels))
    else:
        call.out.table(
            ["id", "name", "description", "created"],
            [[channel.id, channel.name, channel.description, channel.created_at] for channel in channels],
            empty="No channels yet. Make one with `parley channel create --name NAME`.",
        )


@command(app, "create")
def create_channel(
    call: Call,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The channel's name.")] = None,
    name_option: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The same, as an option.")] = None,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")] = None,
) -> None:
    """Create a channel."""
    chosen = one_of(name, name_option, "NAME")
    with call.client() as client:
        result = client.create_channel(chosen, description)
    if call.json:
        call.out.data({"channel": plain(result.channel), "event_id": result.event_id})
    else:
        call.out.line(result.channel.id)
