"""``parley hook``: what an agent program calls to tell its agent of what is new."""

from typing import Annotated, Literal

import typer

from parley.cli.call import Call, command, single

app = single()


@command(app, "hook")
def hook(
    call: Call,
    moment: Annotated[Literal["session-start", "after-tool", "before-stop"], typer.Argument(help="When it is called.")],
    program: Annotated[
        str,
        typer.Option("--program", metavar="NAME", help="Which program calls: claude-code, codex, cursor or gemini."),
    ],
    debug: Annotated[bool, typer.Option("--debug", help="Say on standard error why nothing was said.")] = False,
) -> int:
    """Tell an agent of what is new; called by its program.

    It is told once, in a line. Reads the program's JSON from standard input and answers in the form that the program
    documents. Says nothing when there is nothing new, and never fails: the reason is in .parley/logs/hooks.log.
    """
    import os

    from parley.programs.wake import answer
    from parley.workspace.discovery import VARIABLE

    if call.folder is not None:
        os.environ[VARIABLE] = str(call.folder)
    return answer(program, moment, debug=debug)
