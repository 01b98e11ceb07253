"""What every command of the pipeline is given: which hubs, which lake, which Spark.

A command is a function whose first parameter is a ``PipelineCall``, registered with ``pipeline_command``. What it does
is a module of ``parley.app.pipeline``, loaded when the command runs: it needs packages that are not always installed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, NamedTuple, ParamSpec

import typer

from parley.cli.call import OUTPUT_OPTIONS, Call, Shared, given_before, group, load_app, with_options
from parley.cli.progress import Progress

P = ParamSpec("P")
NUMBER_MAX: Final = 1_000_000_000_000
"""More than a log has events, a table versions or an answer rows; what a machine's word cannot hold is beyond it."""

app = group("Take logs into a lake; ask, check and show what is in it.")

_WorkspacesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="FOLDER|PATTERN",
        help="A workspace, or a quoted pattern such as '/projects/*'; repeatable. Else the nearest above this folder.",
    ),
]
_HubsOption = Annotated[
    list[str] | None,
    typer.Option("--hub", metavar="URL", help="A hub on another machine; repeatable."),
]
_TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="The token for --hub; else PARLEY_HUB_TOKEN."),
]
_LakeOption = Annotated[
    Path | None,
    typer.Option("--lake", metavar="FOLDER", help="The lake; else the folder lake in the workspace's state folder."),
]
_MasterOption = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="A Spark cluster: spark://HOST:PORT.")
]
_RemoteOption = Annotated[str | None, typer.Option("--remote", metavar="URL", help="Spark Connect: sc://HOST:PORT.")]


BrokersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--broker",
        metavar="FILE|URL",
        help="A broker's file, or postgresql://…; repeatable. Without --workspace and --hub, only brokers are read.",
    ),
]


class Place(NamedTuple):
    """Which hubs, which lake and which Spark a command is about, as the user said it."""

    workspaces: tuple[str, ...] = ()
    hubs: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    """Only commands that read brokers have an option for them; see ``with_brokers``."""
    token_file: Path | None = None
    lake: Path | None = None
    master: str | None = None
    remote: str | None = None


class PipelineCall(Call):
    """One call of one command of the pipeline."""

    def with_brokers(self, named: list[str] | None) -> Place:
        """The place with the brokers that a command was given."""
        return self.place._replace(brokers=tuple(named or ()))

    def __init__(self, shared: Shared, place: Place) -> None:
        super().__init__(shared)
        self.place = place

    def progress(self) -> Progress:
        """Where the work tells how far it is; used with ``with``."""
        return Progress(color=self.out.color)

    def work(self, module: str) -> Any:
        """A module of ``parley.app.pipeline``. Raises ``PipelineNotInstalled`` where it cannot be loaded."""
        return load_app(f"pipeline.{module}")


def pipeline_command(
    name: str,
) -> Callable[[Callable[Concatenate[PipelineCall, P], int | None]], Callable[Concatenate[PipelineCall, P], int | None]]:
    """Registers a function as a command of the pipeline, with the options that all of them share."""

    def register(
        function: Callable[Concatenate[PipelineCall, P], int | None],
    ) -> Callable[Concatenate[PipelineCall, P], int | None]:
        app.command(name)(_with_place(function))
        return function

    return register


def _with_place(function: Callable[..., int | None]) -> Callable[..., int | None]:
    def shell(
        ctx: typer.Context,
        *,
        workspace: list[str] | None,
        hub: list[str] | None,
        json: bool,
        jsonl: bool,
        no_color: bool,
        token_file: Path | None,
        lake: Path | None,
        master: str | None,
        remote: str | None,
        **own: Any,
    ) -> int | None:
        before = given_before(ctx)
        named = workspace or ([str(before.workspace)] if before.workspace is not None else [])
        place = Place(tuple(named), tuple(hub or ()), (), token_file, lake, master, remote)
        shared = Shared(None, json, no_color, jsonl).or_else(before)._replace(workspace=None)
        return function(PipelineCall(shared, place), **own)

    return with_options(
        function,
        shell,
        {
            "workspace": (_WorkspacesOption, None),
            "hub": (_HubsOption, None),
            "token_file": (_TokenFileOption, None),
            "lake": (_LakeOption, None),
            "master": (_MasterOption, None),
            "remote": (_RemoteOption, None),
            **OUTPUT_OPTIONS,
        },
    )
