"""``parley archive``: keep the database small."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, load_app, single
from parley.core.clock import parse_iso
from parley.core.errors import InvalidInput

app = single()


@command(app, "archive")
def archive(
    call: Call,
    before: Annotated[str, typer.Option("--before", metavar="TIME", help="ISO 8601, such as 2026-01-31T12:00.")],
) -> None:
    """Move old events and messages to a sealed file.

    What happened before the time leaves the database; the file stays readable and its digest is recorded in the log. A
    reader whose cursor is older is told where to look. The hub must be stopped.
    """
    try:
        before_ms = parse_iso(before)
    except ValueError as error:
        raise InvalidInput(f"--before is not a time: {error}") from error
    done = load_app("archive").archive(call.workspace(), before_ms)
    if call.json:
        call.out.data(done)
    elif done["events"] == 0:
        call.out.line(f"Nothing is older than {before}.")
    else:
        call.out.line(f"{done['events']} events and {done['messages']} messages are now in {done['archive']}.")
