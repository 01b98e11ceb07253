"""What the daemon's commands share."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.call import group

if TYPE_CHECKING:
    from parley.client.daemon import DaemonClient

app = group("Run the daemon, which carries messages between machines.")
outbox_app = group("Look at what is to be sent, and mend what could not be.")
inbox_app = group("Look at what arrived, search it, and throw it away.")
app.add_typer(outbox_app, name="outbox")
app.add_typer(inbox_app, name="inbox")

SESSION_VARIABLE = "PARLEY_DAEMON_SESSION"
"""The token of the session whose commands these are."""
MeshOption = Annotated[str | None, typer.Option("--mesh", metavar="MESH", help="A mesh, by its name or its id.")]


@contextmanager
def daemon_client(timeout: float | None = None) -> Generator["DaemonClient"]:
    """A client of the running daemon. Raises ``DaemonNotRunning``."""
    from parley.cli.call import leave_out_httpx_command_line
    from parley.client.daemon import TIMEOUT_SECONDS, DaemonClient

    leave_out_httpx_command_line()
    with DaemonClient(session=os.environ.get(SESSION_VARIABLE) or None, timeout=timeout or TIMEOUT_SECONDS) as client:
        yield client
