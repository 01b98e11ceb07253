"""``parley re-enrich``: let plugins look at history again."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, single

app = single()


@command(app, "re-enrich")
def re_enrich(
    call: Call,
    since: Annotated[int, typer.Option("--since", min=0, metavar="EVENT", help="Only what changed after this event.")],
    plugin: Annotated[str | None, typer.Option("--plugin", metavar="NAME", help="Only for this plugin.")] = None,
) -> None:
    """Queue messages for the plugins again, from an event on.

    For a plugin that is new, was corrected, or failed: `--since 0` is all of history. What a plugin finds replaces what
    it had found before; finding the same again changes nothing. `parley plugin list` shows how far it is.
    """
    with call.client() as client:
        queued = client.re_enrich(since, plugin).queued
    if call.json:
        call.out.data({"queued": queued})
    else:
        call.out.line(f"Queued {queued} {'job' if queued == 1 else 'jobs'}.")
