"""``parley topic``: the threads of a channel."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import ChannelIdOption, ChannelOption, LimitOption, one_of, required_channel
from parley.cli.plain import plain

app = group("List, create and rename topics.")


@command(app, "list")
def list_topics(
    call: Call,
    channel: ChannelOption = None,
    channel_id: ChannelIdOption = None,
    limit: LimitOption = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Topics to skip.")] = 0,
) -> None:
    """List a channel's topics, the most recently changed first."""
    from parley.workspace import queries

    with call.reading() as reading:
        place = required_channel(reading, channel, channel_id)
        topics, has_more = queries.list_topics(reading, place, limit=limit, offset=offset)
    if call.json:
        call.out.listing("topics", plain(topics), hasMore=has_more)
    else:
        call.out.table(
            ["id", "title", "changed"],
            [[topic.id, topic.title, topic.updated_at] for topic in topics],
            empty="No topics yet. Make one with `parley topic create --channel CHANNEL --title TITLE`.",
            has_more=has_more,
        )


@command(app, "create")
def create_topic(
    call: Call,
    title: Annotated[str | None, typer.Argument(metavar="TITLE", help="The topic's title.")] = None,
    title_option: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The same, as an option.")] = None,
    channel: ChannelOption = None,
    channel_id: ChannelIdOption = None,
) -> None:
    """Create a topic in a channel."""
    chosen = one_of(title, title_option, "TITLE")
    with call.reading() as reading:
        place = required_channel(reading, channel, channel_id)
    with call.client() as client:
        result = client.create_topic(place, chosen)
    if call.json:
        call.out.data({"topic": plain(result.topic), "event_id": result.event_id})
    else:
        call.out.line(result.topic.id)


@command(app, "rename")
def rename_topic(
    call: Call,
    topic_id: Annotated[str, typer.Argument(help="The topic.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Its new title.")],
) -> None:
    """Give a topic another title; its id and its messages stay."""
    with call.client() as client:
        result = client.rename_topic(topic_id, title)
    if call.json:
        call.out.data({"topic": plain(result.topic), "event_id": result.event_id})
    else:
        call.out.line(f"{result.topic.id}\t{result.topic.title}")
