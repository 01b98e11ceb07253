"""What every command is given: the shared options, and the ways to the workspace, its data and its hub.

A command is a function whose first parameter is a ``Call``. ``command`` registers it with the options that all commands
share, so that ``--workspace``, ``--json``, ``--jsonl`` and ``--no-color`` may stand before or after the command's name.
"""

import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, Literal, NamedTuple, ParamSpec, cast

import typer

from parley.cli.output import Output
from parley.core.errors import InvalidInput
from parley.core.exits import Exit
from parley.core.limits import VERSION_MAX

if TYPE_CHECKING:
    from types import ModuleType

    import apsw

    from parley.client import Client
    from parley.core.flags import SettingFlag
    from parley.core.settings import SettingSpec
    from parley.workspace.layout import Workspace

P = ParamSpec("P")

WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="The workspace; else the nearest above this folder."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
JsonlOption = Annotated[bool, typer.Option("--jsonl", help="Print JSON lines; of a list, one entry a line.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Print without colour; so does NO_COLOR.")]


OUTPUT_OPTIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    "json": (JsonOption, False),
    "jsonl": (JsonlOption, False),
    "no_color": (NoColorOption, False),
}


class Shared(NamedTuple):
    """The options that may be given before the command's name."""

    workspace: Path | None = None
    json: bool = False
    no_color: bool = False
    jsonl: bool = False

    def or_else(self, before: "Shared") -> "Shared":
        """These options, and those that were given before the command's name."""
        return Shared(
            self.workspace or before.workspace,
            self.json or before.json,
            self.no_color or before.no_color,
            self.jsonl or before.jsonl,
        )


class Call:
    """One call of one command."""

    def __init__(self, shared: Shared) -> None:
        self.folder = shared.workspace
        self.json = shared.json or shared.jsonl
        color = not shared.no_color and not os.environ.get("NO_COLOR")
        self.out = Output(json=self.json, jsonl=shared.jsonl, color=color)

    def workspace(self) -> "Workspace":
        """The workspace that was named, or the nearest one. Raises ``WorkspaceNotFound``."""
        from parley.workspace import discovery

        return discovery.at(self.folder) if self.folder is not None else discovery.discover()

    def agent(self, name: str | None) -> str:
        """The name that was given, else the one that this session has in the workspace."""
        from parley.client.identity import whoami

        return name if name is not None else whoami(self.workspace()).name

    @contextmanager
    def reading(self) -> Generator["apsw.Connection"]:
        """The workspace's data, read straight from the file."""
        from parley.workspace.reading import open_reading

        with open_reading(self.workspace()) as reading:
            yield reading.connection

    @contextmanager
    def client(self, agent: str | None = None) -> Generator["Client"]:
        """A client of the workspace's running hub, which acts in the name of an agent if one is given."""
        from parley.client import Client
        from parley.core.errors import HubNotRunning

        leave_out_httpx_command_line()
        workspace = self.workspace()
        if not workspace.db.is_file():  # the client would look for a database further up
            raise HubNotRunning(f"No hub has served {workspace.root} yet")
        with Client(workspace.root, agent=agent) as client:
            yield client


def leave_out_httpx_command_line() -> None:
    """httpx loads a command line of its own, which takes longer to load than the rest of it; without, it has a stub."""
    sys.modules.setdefault("httpx._main", cast("ModuleType", None))  # None makes an import fail, as documented


def single() -> typer.Typer:
    """An app for a module with one command."""
    return typer.Typer(rich_markup_mode=None, add_completion=False)


def group(about: str) -> typer.Typer:
    """An app for a module with several commands under one name."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False, help=about)
    app.callback(invoke_without_command=True)(_require_command)
    return app


def _require_command(ctx: typer.Context) -> None:
    """A group by itself does nothing: a person is shown its help, a program is told its mistake."""
    if ctx.invoked_subcommand is not None:
        return
    before = given_before(ctx)
    if before.json or before.jsonl:
        raise InvalidInput("Missing command.", usage=f"{ctx.command_path} --help")
    sys.stderr.write(ctx.get_help() + "\n")
    raise typer.Exit(Exit.ERROR)


def command(
    app: typer.Typer, name: str, *, settings: "Callable[[], Iterable[SettingSpec]] | None" = None
) -> Callable[[Callable[Concatenate[Call, P], int | None]], Callable[Concatenate[Call, P], int | None]]:
    """Registers a function as a command of the app, with the shared options added to its own.

    With ``settings`` it has an option for each setting with a flag, and the function gets what was ``given`` of them.
    """

    def register(
        function: Callable[Concatenate[Call, P], int | None],
    ) -> Callable[Concatenate[Call, P], int | None]:
        app.command(name)(_with_shared_options(function, () if settings is None else _flags_of(settings)))
        return function

    return register


def _with_shared_options(
    function: Callable[..., int | None], flags: "Sequence[SettingFlag]"
) -> Callable[..., int | None]:
    def shell(
        ctx: typer.Context, *, workspace: Path | None, json: bool, jsonl: bool, no_color: bool, **own: Any
    ) -> int | None:
        if flags:
            from parley.core.flags import given_by

            named = {flag.parameter: own.pop(flag.parameter) for flag in flags}
            own["given"] = given_by(flags, named)
        return function(Call(Shared(workspace, json, no_color, jsonl).or_else(given_before(ctx))), **own)

    return with_options(
        function,
        shell,
        {"workspace": (WorkspaceOption, None), **OUTPUT_OPTIONS},
        {flag.parameter: _setting_option(flag) for flag in flags},
    )


def _flags_of(settings: "Callable[[], Iterable[SettingSpec]]") -> "Sequence[SettingFlag]":
    from parley.core.flags import setting_flags

    return setting_flags(settings())


def _setting_option(flag: "SettingFlag") -> tuple[Any, Any]:
    """The type and the default of a setting's option."""
    spec = flag.spec
    by_default = "" if spec.kind is bool or spec.default in (0, "") else f" By default {spec.default}."
    about = spec.flag_help or f"{spec.meaning[0].upper()}{spec.meaning[1:]}.{by_default}"
    if spec.kind is bool:
        return Annotated[bool, typer.Option(flag.name, help=about)], False
    kind: Any = Literal[spec.choices] if spec.choices else spec.kind
    bounds: dict[str, Any] = {"min": spec.low, "max": spec.high} if spec.kind in (int, float) else {}
    metavar = "PATH" if spec.is_path else spec.key.rpartition("_")[2].upper() if kind is str else None
    return Annotated[kind | None, typer.Option(flag.name, metavar=metavar, help=about, **bounds)], None


def given_before(ctx: typer.Context) -> Shared:
    """The shared options that stood before the command's name."""
    return ctx.obj if isinstance(ctx.obj, Shared) else Shared()


def with_options(
    function: Callable[..., int | None],
    shell: Callable[..., int | None],
    shared: Mapping[str, tuple[Any, Any]],
    settings: Mapping[str, tuple[Any, Any]] = {},
) -> Callable[..., int | None]:
    """The shell, with the options of settings and of the function before the shared ones, each a type and a default.

    The function's first parameter is what the shell makes of the shared options.
    """

    def checked(ctx: typer.Context, **given: Any) -> int | None:
        _refuse_what_cannot_be_counted_with(ctx, given)
        return shell(ctx, **given)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[2 if settings else 1 :]
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *_parameters(settings),
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        *_parameters(shared),
    ]
    checked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    checked.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    checked.__doc__ = function.__doc__
    return checked


def _parameters(options: Mapping[str, tuple[Any, Any]]) -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in options.items()
    ]


def _refuse_what_cannot_be_counted_with(ctx: typer.Context, given: Mapping[str, object]) -> None:
    """A number that is none passes any bounds of an option, and one that is too long fits no column of a database."""
    for param in ctx.command.params:
        value = given.get(param.name or "")
        if isinstance(value, int | float) and not abs(value) <= VERSION_MAX:
            raise typer.BadParameter(f"{value} is not a number that can be counted with.", ctx=ctx, param=param)


def load_app(name: str) -> Any:
    """A module of ``parley.app``, which may import every server; loaded only by the commands that need one."""
    import importlib

    return importlib.import_module(f"parley.app.{name}")
