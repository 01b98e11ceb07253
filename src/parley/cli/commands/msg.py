"""``parley msg``: messages of a topic."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from parley.cli.call import Call, command, group
from parley.cli.choices import ExpectedVersionOption, LimitOption, TopicIdOption, require_topic
from parley.cli.plain import plain
from parley.core.errors import InvalidInput
from parley.core.limits import CONTENT_BYTES_MAX

if TYPE_CHECKING:
    from parley.wire.entities import Message

app = group("Send, read, edit, delete and move messages.")

StdinOption = Annotated[bool, typer.Option("--stdin", help="Read it from standard input, without its last line break.")]
MessageArgument = Annotated[str, typer.Argument(help="The message.")]


@command(app, "send")
def send(
    call: Call,
    topic_id: TopicIdOption,
    sender: Annotated[str, typer.Option("--sender", metavar="NAME", help="Who says it.")],
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="What is said.")] = None,
    content: Annotated[str | None, typer.Option("--content", metavar="TEXT", help="The same, as an option.")] = None,
    stdin: StdinOption = False,
    reply_to: Annotated[str | None, typer.Option("--reply-to", metavar="ID", help="The message it answers.")] = None,
    client_message_id: Annotated[
        str | None,
        typer.Option("--client-message-id", metavar="KEY", help="A retry with the same key has one effect."),
    ] = None,
) -> None:
    """Post a message to a topic."""
    said = _content(text, content, stdin)
    with call.client() as client:
        result = client.send_message(topic_id, said, sender, reply_to=reply_to, client_message_id=client_message_id)
    if call.json:
        answer = {"message_id": result.message.id, "event_id": result.event_id}
        call.out.data({**answer, "duplicate": True} if result.duplicate else answer)
    else:
        call.out.line(result.message.id)


@command(app, "edit")
def edit(
    call: Call,
    message_id: MessageArgument,
    content: Annotated[str | None, typer.Option("--content", metavar="TEXT", help="The new text.")] = None,
    stdin: StdinOption = False,
    expected_version: ExpectedVersionOption = None,
) -> None:
    """Replace a message's text."""
    said = _content(None, content, stdin)
    with call.client() as client:
        result = client.edit_message(message_id, said, expected_version=expected_version)
    if call.json:
        call.out.data({"message": plain(result.message), "event_id": result.event_id})
    else:
        call.out.line(f"{result.message.id}\tversion {result.message.version}")


@command(app, "delete")
def delete(
    call: Call,
    message_id: MessageArgument,
    actor: Annotated[str, typer.Option("--actor", metavar="NAME", help="Who deletes it.")],
    expected_version: ExpectedVersionOption = None,
) -> None:
    """Replace a message by a tombstone."""
    with call.client() as client:
        result = client.delete_message(message_id, actor, expected_version=expected_version)
    if call.json:
        call.out.data({"deleted": True, "event_id": result.event_id})
    else:
        call.out.line(f"{message_id}\tdeleted" if result.event_id is not None else f"{message_id}\twas deleted before")


@command(app, "retopic")
def retopic(
    call: Call,
    message_id: MessageArgument,
    to_topic_id: Annotated[str, typer.Option("--to-topic-id", metavar="ID", help="Where to; of the same channel.")],
    mode: Annotated[
        Literal["one", "later", "all"],
        typer.Option("--mode", help="This message, it and all later ones, or all of its topic."),
    ] = "one",
    force: Annotated[bool, typer.Option("--force", help="Needed with --mode all.")] = False,
    expected_version: ExpectedVersionOption = None,
) -> None:
    """Move messages to another topic of their channel."""
    if mode == "all" and not force:
        raise InvalidInput("--mode all moves every message of the topic; add --force if that is meant.")
    with call.client() as client:
        result = client.retopic_message(message_id, to_topic_id, mode=mode, expected_version=expected_version)
    if call.json:
        call.out.data({"affected_count": result.affected_count, "event_ids": result.event_ids})
    else:
        call.out.line(f"{result.affected_count} moved")


@command(app, "tail")
def tail(call: Call, topic_id: TopicIdOption, limit: LimitOption = 50) -> None:
    """Show the newest messages of a topic."""
    from parley.workspace import queries

    with call.reading() as reading:
        require_topic(reading, topic_id)
        found = queries.page_messages(reading, topic_id=topic_id, limit=limit)
    if call.json:
        call.out.listing("messages", plain(found.messages))
    else:
        show(call, found.messages)


@command(app, "page")
def page(
    call: Call,
    topic_id: TopicIdOption,
    before_id: Annotated[str | None, typer.Option("--before-id", metavar="ID", help="Older than this one.")] = None,
    after_id: Annotated[str | None, typer.Option("--after-id", metavar="ID", help="Newer than this one.")] = None,
    limit: LimitOption = 50,
) -> None:
    """Page through a topic's messages in both directions."""
    from parley.workspace import queries

    with call.reading() as reading:
        require_topic(reading, topic_id)
        found = queries.page_messages(reading, topic_id=topic_id, before_id=before_id, after_id=after_id, limit=limit)
    if call.json:
        call.out.listing("messages", plain(found.messages), hasMore=found.has_more)
    else:
        show(call, found.messages, has_more=found.has_more)


def show(call: Call, messages: "list[Message]", *, has_more: bool = False) -> None:
    """Messages for a person: the newest last, as in a conversation."""
    call.out.table(
        ["id", "time", "sender", "text"],
        [[message.id, message.created_at, message.sender, message.content_raw] for message in reversed(messages)],
        empty="No messages.",
        has_more=has_more,
    )


def _content(text: str | None, content: str | None, stdin: bool) -> str:
    given = [value for value in (text, content) if value is not None]
    if len(given) + stdin != 1:
        raise InvalidInput("Give the text once: by position, with --content or with --stdin.")
    # More characters than the largest message has bytes are refused in any case; so an endless pipe ends here.
    return sys.stdin.read(CONTENT_BYTES_MAX + 2).removesuffix("\n") if stdin else given[0]
