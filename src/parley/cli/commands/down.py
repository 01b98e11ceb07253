"""``parley down``: stop the hub."""

from parley.cli.call import Call, command, load_app, single
from parley.cli.choices import STOP_SECONDS, StopTimeoutOption

app = single()


@command(app, "down")
def down(
    call: Call,
    timeout: StopTimeoutOption = STOP_SECONDS,
) -> None:
    """Stop the hub of a workspace.

    It answers the requests in flight first. If no hub runs, that is said, and is no error.
    """
    workspace = call.workspace()
    stopped = load_app("stop").stop_hub(workspace, timeout)
    if call.json:
        status = "already_stopped" if stopped.pid is None else "stopped"
        call.out.data(
            {"status": status, "workspace_root": str(workspace.root), "pid": stopped.pid, "killed": stopped.killed}
        )
    elif stopped.pid is None:
        call.out.line(f"No hub is running for {workspace.root}.")
    elif stopped.killed:
        call.out.line(f"The hub (process {stopped.pid}) did not end within {timeout:g} s and was killed.")
    else:
        call.out.line(f"The hub (process {stopped.pid}) has stopped.")
