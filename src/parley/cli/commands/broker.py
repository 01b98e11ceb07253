"""``parley broker``: the server that the daemons of a mesh meet at."""

import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.announce import Announcer
from parley.cli.call import Call, command, group, load_app
from parley.cli.choices import STOP_SECONDS, StopTimeoutOption
from parley.cli.services import tell_installed, tell_uninstalled
from parley.core.broker_settings import broker_setting_specs
from parley.core.errors import ParleyError, StartupFailed
from parley.core.exits import Exit

app = group("Serve meshes of daemons, and keep what a broker holds.")

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="FILE|URL", help="A file, or postgresql://…; else a file in the folder."),
]
FolderOption = Annotated[Path | None, typer.Option("--folder", metavar="FOLDER", help="Instead of ~/.parley/broker.")]
_PortOption = Annotated[
    int | None, typer.Option("--port", min=1, max=65_535, help="Only the one on this port; several may share a folder.")
]
_READY = {True: "yes", False: "no", None: "not asked"}


@command(app, "up", settings=broker_setting_specs)
def up(
    call: Call,
    given: dict[str, Any],
    folder: FolderOption = None,
    log_file: Annotated[Path | None, typer.Option("--log-file", metavar="FILE", help="Instead of stderr.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="In the background; its log is in the folder.")] = False,
    report_fd: Annotated[int | None, typer.Option("--report-fd", hidden=True)] = None,
) -> int:
    """Serve meshes until it is told to stop.

    What is not named here stands in broker.toml in the folder. As long as nobody has joined a mesh here, each start
    prints an invite for the owner of the first one.
    """
    broker = load_app("broker")
    announcer = Announcer(call, report_fd, _words)
    options = broker.UpOptions(given, folder, log_file)
    try:
        if detach:
            announcer.ready(broker.start_detached(options))
            return Exit.OK
        apart = None if report_fd is None else broker.log_path(broker.broker_folder(folder))
        return broker.serve(options, on_ready=announcer.ready, log_file=apart)
    except Exception as error:
        if report_fd is None:
            raise
        known = error if isinstance(error, ParleyError) else StartupFailed(f"{type(error).__name__}: {error}")
        if known is not error:
            traceback.print_exc()
        announcer.failed(known)  # to the process that waits for word of this one
        return known.exit_code


@command(app, "down")
def down(
    call: Call,
    folder: FolderOption = None,
    port: _PortOption = None,
    timeout: StopTimeoutOption = STOP_SECONDS,
) -> None:
    """Stop the brokers that serve from the folder. Daemons come back by themselves when one is there again."""
    stopped = load_app("broker_running").stop(folder, port, timeout)
    if call.json:
        call.out.data({"status": "stopped" if stopped else "already_stopped", "brokers": stopped})
        return
    for each in stopped:
        how = "was killed" if each["killed"] else "has stopped"
        call.out.line(f"The broker on port {each['port']} (process {each['pid']}) {how}.")
    if not stopped:
        call.out.line("No broker is running.")


@command(app, "status")
def status(call: Call, folder: FolderOption = None, port: _PortOption = None) -> int:
    """Show the brokers that serve from the folder. Exits with 3 when there is none."""
    running = load_app("broker_running")
    found: list[dict[str, Any]] = [running.shown(each) for each in running.running(folder, port)]
    if call.json:
        call.out.data({"status": "running" if found else "not_running", "brokers": found})
    else:
        rows = [(each["url"], each["pid"], each["store"], _READY[each["ready"]], each["started_at"]) for each in found]
        call.out.table(["url", "process", "store", "takes writes", "since"], rows, empty="No broker is running.")
    return Exit.OK if found else Exit.UNREACHABLE


@command(app, "limits")
def limits(
    call: Call,
    mesh: Annotated[str | None, typer.Argument(metavar="[MESH]", help="Only this one, by its short name.")] = None,
    members_max: Annotated[
        int | None, typer.Option("--members-max", min=1, help="So many members it may have from now on.")
    ] = None,
    bytes_max: Annotated[
        int | None, typer.Option("--bytes-max", min=1024, help="So many bytes it may hold from now on.")
    ] = None,
    store: StoreOption = None,
    folder: FolderOption = None,
) -> None:
    """Show what the meshes of a broker may hold, and hold, or change it for one; also while it serves.

    A change holds at once and is written into the mesh's audit log. Nothing is removed where a limit falls below what
    is there: the mesh only takes no more.
    """
    found: list[dict[str, Any]] = load_app("broker_limits").limits(store, folder, mesh, members_max, bytes_max)
    if call.json:
        call.out.data({"meshes": found}, rows="meshes")
        return
    rows = [
        (each["slug"], f"{each['members']} of {each['members_max']}", f"{each['stored_bytes']} of {each['bytes_max']}")
        for each in found
    ]
    call.out.table(["mesh", "members", "bytes"], rows, empty="There is no mesh yet.")


@command(app, "backup")
def backup(
    call: Call,
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    store: StoreOption = None,
    folder: FolderOption = None,
) -> None:
    """Copy all that a broker holds to a file, also while it serves."""
    made = load_app("broker").back_up(store, folder, file)
    if call.json:
        call.out.data(made)
    else:
        call.out.line(f"Copied to {made['backup']}, {made['bytes']} bytes.")


@command(app, "restore")
def restore(
    call: Call,
    file: Annotated[Path, typer.Argument(help="A file that `parley broker backup` made.")],
    store: StoreOption = None,
    folder: FolderOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what the store holds.")] = False,
) -> None:
    """Put a backup in the place of what a broker holds.

    The broker must not be running. A file that is replaced is kept beside the new one. A new epoch begins.
    """
    made = load_app("broker").restore(store, folder, file, force=force)
    if call.json:
        call.out.data(made)
    else:
        call.out.line(f"Restored {made['restored']}; this is epoch {made['epoch']}.")


@command(app, "check")
def check(call: Call, store: StoreOption = None, folder: FolderOption = None) -> int:
    """Check what a broker holds: the file, orphans, the chains of the audit logs, and the rosters.

    Exits with 5 when something does not fit.
    """
    found = load_app("broker").check(store, folder)
    if call.json:
        call.out.data(found)
    else:
        for problem in found["problems"]:
            call.out.line(f"The file is damaged: {problem}")
        for each in found["orphans"]:
            call.out.line(f"{each['check']}: {each['meaning']} ({each['times']} times)")
        for slug, number in found["broken_audits"].items():
            call.out.line(f"The audit log of {slug} does not hold from entry {number} on.")
        for slug, n in found["broken_rosters"].items():
            call.out.line(f"The roster of {slug} does not hold from entry {n} on.")
        if found["sound"]:
            call.out.line("All fits.")
    return Exit.OK if found["sound"] else Exit.DAMAGE


@command(app, "install-service")
def install_service(
    call: Call,
    folder: FolderOption = None,
    allow_ci: Annotated[
        bool, typer.Option("--allow-ci-persistent", "--allow-ci", help="Also on a build machine.")
    ] = False,
    no_start: Annotated[bool, typer.Option("--no-start", help="Only write the file.")] = False,
) -> None:
    """Let the system keep the broker running: systemd or launchd, as a service of this user.

    It serves what broker.toml in the folder says, with its log beside it. It is started again when it fails, but not
    when its start was refused.
    """
    service = load_app("broker_service")
    tell_installed(call, service.install_service(folder, allow_ci=allow_ci, start=not no_start))


@command(app, "uninstall-service")
def uninstall_service(call: Call, folder: FolderOption = None) -> None:
    """Stop the service and remove it. What the broker holds stays."""
    tell_uninstalled(call, load_app("broker_service").uninstall_service(folder))


def _words(report: dict[str, Any]) -> str:
    text = f"The broker is running at {report['url']}."
    if report["owner_invite"] is None:
        return text
    return f"{text}\nNobody has joined yet. The owner of the first mesh joins with:\n{report['owner_invite']}"
