"""Options that several commands take, and how the two spellings of one thing are told apart."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from parley.core.errors import InvalidInput, NotFound
from parley.core.limits import PAGE_LIMIT_MAX

if TYPE_CHECKING:
    import apsw

STOP_SECONDS: Final = 30.0
"""How long a server may take to end before it is killed, where nothing else is said."""

ChannelOption = Annotated[
    str | None, typer.Option("--channel", metavar="NAME|ID", help="The channel, by its name or its id.")
]
ChannelIdOption = Annotated[str | None, typer.Option("--channel-id", metavar="ID", help="The channel, by its id.")]
TopicIdOption = Annotated[str, typer.Option("--topic-id", metavar="ID", help="The topic.")]
AgentOption = Annotated[
    str | None,
    typer.Option("--agent", metavar="NAME", help="Who does it; else PARLEY_AGENT, else this session's own name."),
]
GenerationOption = Annotated[
    int | None,
    typer.Option("--generation", min=0, metavar="N", help="That of your claim or lease; else the newest one."),
]
TtlOption = Annotated[
    int | None, typer.Option("--ttl", min=1, metavar="SECONDS", help="How long; else as the settings say.")
]
StopTimeoutOption = Annotated[
    float,
    typer.Option("--timeout", min=0, max=86_400, metavar="SECONDS", help="Then it is killed.", show_default=True),
]
ReasonOption = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; the log keeps it.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=PAGE_LIMIT_MAX, help="At most this many.")]
ExpectedVersionOption = Annotated[
    int | None,
    typer.Option("--expected-version", min=1, help="Fail with code 2 if the message has another version."),
]


def one_of(argument: str | None, option: str | None, what: str) -> str:
    """The value that may be given by position or by option, but must be given once."""
    given = [value for value in (argument, option) if value is not None]
    if len(given) != 1:
        raise InvalidInput(f"Give {what} once, by position or by option.")
    return given[0]


def channel_of(reading: "apsw.Connection", channel: str | None, channel_id: str | None) -> str | None:
    """The id of the channel that was named in one of the two ways, or None. Raises ``NotFound``."""
    from parley.workspace import queries

    if channel is not None and channel_id is not None:
        raise InvalidInput("Give --channel or --channel-id, not both.")
    named = channel if channel is not None else channel_id
    if named is None:
        return None
    found = queries.find_channel(reading, named)
    if found is None:
        raise NotFound(f"No channel {named}", channel=named)
    return found.id


def required_channel(reading: "apsw.Connection", channel: str | None, channel_id: str | None) -> str:
    """The same, where a channel must be given."""
    found = channel_of(reading, channel, channel_id)
    if found is None:
        raise InvalidInput("Missing option '--channel'.")
    return found


def require_topic(reading: "apsw.Connection", topic_id: str) -> None:
    """A topic that does not exist is a mistake, not an empty answer. Raises ``NotFound``."""
    from parley.workspace import queries

    if queries.get_topic(reading, topic_id) is None:
        raise NotFound(f"No topic {topic_id}", topic_id=topic_id)
