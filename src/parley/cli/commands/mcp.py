"""``parley mcp``: the tools of an agent, on standard input and output."""

from typing import Annotated, Literal

import typer

from parley.cli.call import Call, command, load_app, single

app = single()


@command(app, "mcp")
def mcp(
    call: Call,
    profile: Annotated[
        Literal["default", "full"], typer.Option("--profile", help="A dozen tools, or one for everything the SDK does.")
    ] = "default",
    program: Annotated[
        str | None, typer.Option("--program", metavar="NAME", help="Which program calls, as its hooks name it.")
    ] = None,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Say that the hub is down instead of starting it.")
    ] = False,
) -> None:
    """Serve an agent's tools by the Model Context Protocol.

    An agent's program starts this command and talks to it on standard input and output. It ends with that program.
    """
    load_app("mcp").serve(call.folder, profile=profile, program=program, start=not no_start)
