"""``parley up``: start the hub."""

import json as json_text
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from parley.cli.call import Call, command, load_app, single
from parley.cli.output import error_payload
from parley.core.errors import ParleyError, StartupFailed
from parley.core.exits import Exit

if TYPE_CHECKING:
    from parley.workspace.layout import Workspace

app = single()


@command(app, "up")
def up(
    call: Call,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="A loopback address.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65_535, help="0 takes a free one.")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Instead of parley.toml.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Serve in the background.")] = False,
    no_rate_limit: Annotated[bool, typer.Option("--no-rate-limit", help="Serve every request.")] = False,
    synchronous: Annotated[
        Literal["full", "normal"] | None, typer.Option("--synchronous", help="How each commit reaches the disk.")
    ] = None,
    unsafe_network: Annotated[
        bool, typer.Option("--unsafe-network", help="Allow an address that other machines can reach.")
    ] = False,
    idle_shutdown_ms: Annotated[
        int | None, typer.Option("--idle-shutdown-ms", min=0, metavar="MS", help="Stop after so long without work.")
    ] = None,
    report_fd: Annotated[int | None, typer.Option("--report-fd", hidden=True)] = None,
) -> int:
    """Start the hub of a workspace.

    Without a workspace here or above, one is made: in the folder that --workspace names, else in this one.
    """
    start = load_app("start")
    options = start.UpOptions(host, port, config, not no_rate_limit, synchronous, unsafe_network, idle_shutdown_ms)
    announcer = Announcer(call, report_fd)
    try:
        workspace, made = load_app("make").find_or_make(call.folder)
        announcer.workspace = workspace
        if not call.json and (made or call.folder is None):
            call.out.note(f"{'Made' if made else 'Using'} the workspace {workspace.root}.")
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


class Announcer:
    """Says once that the hub serves, or why it does not: to a person, a program, or the process that detached it."""

    def __init__(self, call: Call, report_fd: int | None) -> None:
        self._call = call
        self._report_fd = report_fd
        self.workspace: Workspace | None = None

    def ready(self, report: dict[str, Any]) -> None:
        """The hub serves."""
        if self._reported(report):
            return
        if self._call.json:
            self._call.out.data(report)
        else:
            self._call.out.line(f"The hub of {report['workspace_root']} is running at {report['url']}.")
        sys.stdout.flush()

    def failed(self, error: ParleyError) -> None:
        """It does not."""
        root = None if self.workspace is None else str(self.workspace.root)
        payload = {**error_payload(error), "workspace_root": root, "reason": error.details.get("reason", str(error))}
        self._reported(payload)
        if self._call.json:
            sys.stderr.write(json_text.dumps(payload, ensure_ascii=False) + "\n")
        else:
            self._call.out.error(error)

    def _reported(self, payload: dict[str, Any]) -> bool:
        """Tells the process that detached this one, if there is one. Should it be gone, the hub serves all the same."""
        descriptor, self._report_fd = self._report_fd, None
        if descriptor is None:
            return False
        with suppress(BrokenPipeError), os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
            pipe.write(json_text.dumps(payload) + "\n")
        return True
