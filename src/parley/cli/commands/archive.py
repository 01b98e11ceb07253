"""``parley archive``: keep the database small."""

import re
from typing import Annotated, Final

import typer

from parley.cli.call import Call, command, load_app, single
from parley.core.clock import Clock, SystemClock, parse_iso
from parley.core.errors import InvalidInput

app = single()

_AGE: Final = re.compile(r"([0-9]{1,9})([smhdw])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


@command(app, "archive")
def archive(
    call: Call,
    before: Annotated[
        str, typer.Option("--before", metavar="TIME|AGE", help="2026-01-31, 2026-01-31T12:00, or an age: 12h, 30d.")
    ],
) -> None:
    """Move old events and messages to a sealed file.

    What happened before the time leaves the database; the file stays readable and its digest is recorded in the log. A
    reader whose cursor is older is told where to look. The hub must be stopped.
    """
    done = load_app("archive").archive(call.workspace(), moment_ms(before, SystemClock()))
    if call.json:
        call.out.data(done)
    elif done["events"] == 0:
        call.out.line(f"Nothing is older than {before}.")
    else:
        call.out.line(f"{done['events']} events and {done['messages']} messages are now in {done['archive']}.")


def moment_ms(text: str, clock: Clock) -> int:
    """The moment that a time names, or that an age such as ``30d`` lies before now. Raises ``InvalidInput``."""
    age = _AGE.fullmatch(text)
    if age is not None:
        return clock.now_ms() - int(age[1]) * _UNIT_SECONDS[age[2]] * 1000
    try:
        return parse_iso(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"--before is neither a time nor an age: {error}") from error
