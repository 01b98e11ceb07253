"""``parley bench``: how fast the hub is on this machine."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, load_app, single

app = single()


@command(app, "bench")
def bench(
    call: Call,
    messages: Annotated[
        int, typer.Option("--messages", min=1, max=1_000_000, help="How many messages to populate it with.")
    ] = 2_000,
) -> None:
    """Measure the hub on this machine in a temporary workspace.

    The figures are printed as JSON, each beside its budget.
    """
    call.out.note(f"Starting a hub in a temporary folder and sending it {messages} messages …")
    call.out.data(load_app("bench").run_bench(messages))
