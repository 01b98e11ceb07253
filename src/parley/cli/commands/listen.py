"""``parley listen``: the feed as JSON lines."""

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from parley.cli.call import Call, command, single

if TYPE_CHECKING:
    from parley.client import StateChange

app = single()


@command(app, "listen")
def listen(
    call: Call,
    since: Annotated[
        int | None,
        typer.Option("--since", min=0, metavar="EVENT_ID", help="Start after this event; else with the oldest."),
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", metavar="NAME|ID", help="Only this channel; may be repeated.")
    ] = None,
    topic_id: Annotated[
        list[str] | None, typer.Option("--topic-id", metavar="ID", help="Only this topic; may be repeated.")
    ] = None,
    output_format: Annotated[Literal["jsonl"], typer.Option("--format", help="One JSON object a line.")] = "jsonl",
) -> None:
    """Print events as they happen, one JSON object a line.

    History after --since comes first. When the hub is restarted it connects again and goes on where it was; that is
    said on standard error. Ends with 0 at Ctrl-C or SIGTERM, with 4 when the token is refused.
    """
    import msgspec

    def report(change: "StateChange") -> None:
        if change.name != "connected":
            call.out.note(f"{change.name} after event {change.after_event_id or 0} {change.reason}".rstrip())

    signal.signal(signal.SIGTERM, _interrupt)
    out = sys.stdout.buffer
    try:
        with call.client() as client:
            client.health()  # a hub that is not there at the start is a failure; one that goes away later comes back
            with client.events(after=since, channels=channel, topics=topic_id, on_state=report) as feed:
                for event in feed:
                    out.write(msgspec.json.encode(event) + b"\n")
                    out.flush()
    except KeyboardInterrupt:
        return


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
