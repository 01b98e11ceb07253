"""``parley search``: messages by their text."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, single
from parley.cli.choices import ChannelIdOption, ChannelOption, LimitOption, channel_of, one_of
from parley.cli.commands.msg import show
from parley.cli.plain import plain
from parley.core.limits import SEARCH_LIMIT_DEFAULT

app = single()


@command(app, "search")
def search(
    call: Call,
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help='Words, or a "phrase".')] = None,
    query_option: Annotated[
        str | None, typer.Option("--query", metavar="QUERY", help="The same, as an option.")
    ] = None,
    channel: ChannelOption = None,
    channel_id: ChannelIdOption = None,
    topic_id: Annotated[str | None, typer.Option("--topic-id", metavar="ID", help="Only in this topic.")] = None,
    limit: LimitOption = SEARCH_LIMIT_DEFAULT,
) -> None:
    """Find messages by their text.

    With the full-text index (the default) words are joined by AND; OR, NOT and "phrases" work. Without it the text is
    compared as it is.
    """
    from parley.workspace import queries

    wanted = one_of(query, query_option, "QUERY")
    with call.reading() as reading:
        place = channel_of(reading, channel, channel_id)
        hits = queries.search(reading, wanted, channel_id=place, topic_id=topic_id, limit=limit)
    if call.json:
        call.out.listing("messages", plain(hits.messages), hasMore=hits.has_more, fts_used=hits.fts_used)
    else:
        show(call, hits.messages, has_more=hits.has_more)
