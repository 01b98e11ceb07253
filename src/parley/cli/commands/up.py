"""``parley up``: start the hub."""

import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.announce import Announcer
from parley.cli.call import Call, command, load_app, single
from parley.core.errors import ParleyError, StartupFailed
from parley.core.exits import Exit
from parley.core.settings import setting_specs

app = single()


@command(app, "up", settings=setting_specs)
def up(
    call: Call,
    given: dict[str, Any],
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Instead of parley.toml.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Serve in the background.")] = False,
    unsafe_network: Annotated[
        bool, typer.Option("--unsafe-network", help="Allow an address that other machines can reach.")
    ] = False,
    report_fd: Annotated[int | None, typer.Option("--report-fd", hidden=True)] = None,
) -> int:
    """Start the hub of a workspace.

    Without a workspace here or above, one is made: in the folder that --workspace names, else in this one.
    """
    from parley.workspace.discovery import foreign_config_notice

    start = load_app("start")
    options = start.UpOptions(given, config, unsafe_network)
    announcer = Announcer(call, report_fd, _words)
    announcer.about = {"workspace_root": None}
    try:
        workspace, made = load_app("make").find_or_make(call.folder)
        announcer.about = {"workspace_root": str(workspace.root)}
        if not call.json and (made or call.folder is None):
            call.out.note(f"{'Made' if made else 'Using'} the workspace {workspace.root}.")
        notice = foreign_config_notice(workspace)
        if notice is not None and not call.json:
            call.out.note(notice)
        if detach:
            announcer.ready(start.start_detached(workspace, options))
            return Exit.OK
        return start.serve(workspace, options, on_ready=announcer.ready, log_to_file=report_fd is not None)
    except ParleyError as error:
        announcer.failed(error)
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        announcer.failed(StartupFailed(f"{type(error).__name__}: {error}"))
        return Exit.ERROR


def _words(report: dict[str, Any]) -> str:
    return f"The hub of {report['workspace_root']} is running at {report['url']}."
