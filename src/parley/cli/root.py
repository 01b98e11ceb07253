"""The top of the command line: the list of commands, and the one place where a failure becomes text and an exit code.

Commands are loaded by name when they are called; the list below is all that ``parley --help`` needs. A usage error
exits with 1, since 2 means a version conflict, and is JSON when ``--json`` or ``--jsonl`` was given, like every other
failure.
"""

import errno
import importlib
import io
import keyword
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, Final, NamedTuple, TextIO

import typer
from typer.core import TyperGroup

from parley.cli.call import JsonlOption, JsonOption, NoColorOption, Shared, WorkspaceOption
from parley.cli.output import Output
from parley.core.errors import InternalError, InvalidInput, ParleyError, ServiceUnavailable
from parley.core.exits import Exit

PROGRAM: Final = "parley"
COMPLETE_VARIABLE: Final = "_PARLEY_COMPLETE"
"""Set by the scripts of ``parley completion`` when the shell asks what could come next."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Why a file that is open takes no more; such an error does not name the file."""


class Entry(NamedTuple):
    """A command: its section and its line in the help. The module in ``parley.cli.commands`` has its name,
    with a stroke behind it where the name is a word of Python's."""

    section: str
    name: str
    help: str

    @property
    def module(self) -> str:
        name = self.name.replace("-", "_")
        return f"parley.cli.commands.{name}_" if keyword.iskeyword(name) else f"parley.cli.commands.{name}"


ENTRIES: Final = (
    Entry("Workspace", "try", "Take a tour of five minutes, with simulated agents."),
    Entry("Workspace", "init", "Make a workspace here."),
    Entry("Workspace", "up", "Start the hub of a workspace."),
    Entry("Workspace", "down", "Stop the hub of a workspace."),
    Entry("Workspace", "ui", "Open the hub's page in the browser, logged in."),
    Entry("Workspace", "status", "Show whether the hub runs, and how much the workspace holds."),
    Entry("Workspace", "doctor", "Check a workspace, and repair what can be repaired."),
    Entry("Workspace", "token", "Manage the workspace's token."),
    Entry("Messages", "channel", "List and create channels."),
    Entry("Messages", "topic", "List, create and rename topics."),
    Entry("Messages", "msg", "Send, read, edit, delete and move messages."),
    Entry("Messages", "attachment", "Add and list the attachments of a topic."),
    Entry("Messages", "search", "Find messages by their text."),
    Entry("Messages", "listen", "Print events as they happen, one JSON object a line."),
    Entry("Agents", "agent", "Say who you are, and see who is here."),
    Entry("Agents", "task", "Create, claim and complete tasks."),
    Entry("Agents", "lease", "Reserve paths, and see who has."),
    Entry("Agents", "setup", "Set an agent program up for Parley, check it, or take it back."),
    Entry("Agents", "hook", "Tell an agent of what is new; called by its program."),
    Entry("Agents", "guard", "Let git say whose leases a commit or a push is in the way of."),
    Entry("Agents", "mcp", "Serve an agent's tools by the Model Context Protocol."),
    Entry("Other machines", "daemon", "Run the daemon, which carries messages between machines."),
    Entry("Other machines", "mesh", "Make, join and look after meshes."),
    Entry("Other machines", "send", "Send a message to another machine."),
    Entry("Other machines", "inbox", "Show what arrived from other machines."),
    Entry("Other machines", "broker", "Serve meshes of daemons, and keep what a broker holds."),
    Entry("Other machines", "bus", "Let your machines on a LAN talk, with no server."),
    Entry("Plugins", "trust", "Let the plugins that a workspace brings run."),
    Entry("Plugins", "plugin", "Make, test and list plugins."),
    Entry("Plugins", "re-enrich", "Queue messages for the plugins again, from an event on."),
    Entry("Keeping", "archive", "Move old events and messages to a sealed file."),
    Entry("Keeping", "backup", "Copy the database, also while a hub is running."),
    Entry("Keeping", "export", "Write everything in a workspace as JSON lines."),
    Entry("Tools", "pipeline", "Take logs into a lake; ask, check and show what is in it."),
    Entry("Tools", "bench", "Measure the hub on this machine in a temporary workspace."),
    Entry("Tools", "completion", "Print the completion script of a shell."),
)
_NAME_WIDTH: Final = max(len(entry.name) for entry in ENTRIES)


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are needed, and listed without importing any."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [entry.name for entry in ENTRIES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = self.commands.get(cmd_name)
        if found is None:
            entry = next((entry for entry in ENTRIES if entry.name == cmd_name), None)
            if entry is None:
                return None
            found = typer.main.get_command(importlib.import_module(entry.module).app)
            found.name = cmd_name
            self.add_command(found, cmd_name)
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section, entries in groupby(ENTRIES, key=lambda entry: entry.section):
            with formatter.section(section):
                formatter.write_dl([(entry.name.ljust(_NAME_WIDTH), entry.help) for entry in entries])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx))
            if near and "Did you mean" not in error.message:
                error.message = f"{error.message.rstrip('.')}. Did you mean {near[0]!r}?"
            raise


root = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    add_completion=COMPLETE_VARIABLE in os.environ,  # typer knows the shells only then
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from parley import __version__

        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


@root.callback(invoke_without_command=True)
def top(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    jsonl: JsonlOption = False,
    no_color: NoColorOption = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A durable, local-first place where coding agents and the people who run them talk."""
    ctx.obj = Shared(workspace, json, no_color, jsonl)
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help() + "\n")


def run(args: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Everything that goes wrong is reported here."""
    _open_what_is_closed()
    _speak_utf8()
    try:
        code = _called(args, Output(json=asks_for_json(args)))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader left; say nothing more
        _print_no_more()
    except OSError as error:  # nor could the failure be printed where the answer was to be
        _print_no_more()
        _tell_of_writing(error, Output(json=False))
    return Exit.ERROR


def _called(args: Sequence[str], output: Output) -> int:
    """The exit code of the command, after whatever went wrong was told. Raises ``OSError`` if that cannot be."""
    try:
        return int(typer.main.get_command(root).main(list(args), PROGRAM, standalone_mode=False) or Exit.OK)
    except ParleyError as error:
        output.error(error)
        return error.exit_code
    except typer.TyperException as error:
        return _usage(error, output)
    except BrokenPipeError:
        raise
    except typer.Abort:
        return Exit.ERROR
    except UnicodeError:  # bytes of the shell or a pipe that are no text, where only text can go
        output.error(InvalidInput("What was given is not text in UTF-8"), hint="Send it as UTF-8.")
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # a full disk, a read-only mount, a mode
            output.error(ServiceUnavailable(f"{error.filename}: {error.strerror}", reason="io_error"))
        elif isinstance(error, OSError) and error.errno in _NO_ROOM:
            sys.stdout.flush()  # fails again, if it is the output that failed
            _tell_of_writing(error, output)
        else:
            traceback.print_exc()
            output.error(InternalError(f"{type(error).__name__}: {error}"), hint="Report it with the lines above it.")
    return Exit.ERROR


def asks_for_json(args: Sequence[str]) -> bool:
    """Whether ``--json`` or ``--jsonl`` is among the options; needed before parsing, which may be what fails."""
    options = args[: list(args).index("--")] if "--" in args else args
    return "--json" in options or "--jsonl" in options


def _usage(error: typer.TyperException, output: Output) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    message = error.format_message() or "Missing command."
    refusal = InvalidInput(message, usage=f"{path} --help")
    output.error(refusal, hint=f"See `{path} --help`.")
    return Exit.ERROR


def _open_what_is_closed() -> None:
    """Whoever closed a stream wants nothing of it; the next file that is opened must not get its number instead."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            _point_at_nothing(number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _tell_of_writing(error: OSError, output: Output) -> None:
    refusal = ServiceUnavailable(f"The output cannot be written: {error.strerror}", reason="io_error")
    output.error(refusal, hint="Send it elsewhere, or make room.")


def _print_no_more() -> None:
    """Lets what stdout still holds go nowhere, so that the end of the process does not fail of it too."""
    _point_at_nothing(sys.stdout.fileno())


def _point_at_nothing(number: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:  # the lowest number that is free may be the very one
        os.dup2(nothing, number)
        os.close(nothing)


def _speak_utf8() -> None:
    """What a command prints is UTF-8 whatever the locale says, and a character that is not text never stops it.

    What it reads is UTF-8 too, with every line break as it is.
    """
    stdin: TextIO = sys.stdin
    if isinstance(stdin, io.TextIOWrapper):
        stdin.reconfigure(encoding="utf-8", errors="strict", newline="")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
