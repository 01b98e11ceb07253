"""``parley export``: a workspace as text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.call import Call, command, single
from parley.core.clock import SystemClock
from parley.core.errors import InvalidInput

app = single()


@command(app, "export")
def export(
    call: Call,
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="A new file; else standard output.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind, such as event; may be repeated.")
    ] = None,
    since: Annotated[int, typer.Option("--since", min=0, metavar="EVENT_ID", help="Only events after this one.")] = 0,
) -> None:
    """Write everything in a workspace as JSON lines.

    The first line says what follows; then one thing a line: channels, topics, messages, attachments, enrichments, and
    the event log. All of it is of one moment, and no hub is needed.
    """
    from parley.workspace.export import KINDS, export_jsonl

    unknown = set(kind or ()) - set(KINDS)
    if unknown:
        raise InvalidInput(f"--kind is one of {', '.join(KINDS)}, not {', '.join(sorted(unknown))}.")
    now_ms, kinds = SystemClock().now_ms(), kind or KINDS
    with call.reading() as reading:
        if target is None:
            export_jsonl(reading, sys.stdout.buffer, now_ms=now_ms, kinds=kinds, since=since)
            return
        try:
            with target.open("xb") as file:
                counts = export_jsonl(reading, file, now_ms=now_ms, kinds=kinds, since=since)
        except OSError as error:
            raise InvalidInput(f"{target} cannot be written: {error.strerror}") from error
    if call.json:
        call.out.data({"file": str(target.absolute()), "counts": counts})
    else:
        call.out.line(f"{sum(counts.values())} lines are in {target}.")
