"""``parley completion``: TAB in the shell."""

import sys
from typing import Annotated, Literal

import typer
from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]

from parley.cli.call import Call, command, single

app = single()


@command(app, "completion")
def completion(
    call: Call, shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Which shell.")]
) -> None:
    """Print the completion script of a shell.

    bash: add  eval "$(parley completion bash)"  to ~/.bashrc. zsh: the same with zsh in ~/.zshrc.
    fish: parley completion fish > ~/.config/fish/completions/parley.fish
    """
    script = get_completion_script(prog_name="parley", complete_var="_PARLEY_COMPLETE", shell=shell)
    if call.json:
        call.out.data({"shell": shell, "script": script})
    else:
        sys.stdout.write(script + "\n")
