"""``parley daemon up``, ``down``, ``status`` and ``version``."""

import os
import traceback
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.announce import Announcer
from parley.cli.call import Call, command, load_app
from parley.cli.choices import STOP_SECONDS, StopTimeoutOption
from parley.cli.commands.daemon.options import app, daemon_client
from parley.cli.plain import plain
from parley.core.daemon_errors import DaemonLate, DaemonNotRunning
from parley.core.daemon_settings import daemon_setting_specs
from parley.core.errors import InvalidInput, ParleyError, StartupFailed
from parley.core.exits import Exit
from parley.wire.daemon_home import HOME_VARIABLE

if TYPE_CHECKING:
    from parley.wire.daemon_answers import MeshState

STATUS_SECONDS = 5.0
"""How long a look at the daemon waits before it says that there is no answer."""


@command(app, "up", settings=daemon_setting_specs)
def up(
    call: Call,
    given: dict[str, Any],
    foreground: Annotated[bool, typer.Option("--foreground", help="Serve in this process.")] = False,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="In this process, in a folder that is gone at the end, keys included.")
    ] = False,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="Keep keys and messages, also on a build machine (CI).")
    ] = False,
    ttl_hours: Annotated[
        float | None,
        typer.Option("--ttl", min=0.001, max=8760, metavar="HOURS", help="Stop after so long; if it is ephemeral."),
    ] = None,
    report_fd: Annotated[int | None, typer.Option("--report-fd", hidden=True)] = None,
) -> int:
    """Start the daemon, in the background unless told otherwise.

    One daemon serves all meshes of a user. A second start exits with 10 and names the first.

    On a build machine (CI=true and the like) each start makes another daemon, an ephemeral one: its folder, which it
    prints, and its keys are gone at its end. The other commands find it when PARLEY_DAEMON_HOME names that folder.
    With --persistent, or when PARLEY_DAEMON_HOME names a folder already, it is the usual one.
    """
    start = load_app("daemon.start")
    # Who names a folder wants what is in it to last.
    by_itself = not (ephemeral or persistent or os.environ.get(HOME_VARIABLE)) and load_app("services").in_ci()
    announcer = Announcer(call, report_fd, _words_with_folder if ephemeral or by_itself else _words)
    try:
        if ephemeral and persistent:
            raise InvalidInput("--ephemeral and --persistent exclude each other")
        if ttl_hours is not None and not ephemeral and not by_itself:
            raise InvalidInput("--ttl is for an ephemeral daemon")
        if by_itself and not foreground:
            announcer.ready(start.start_detached_ephemeral(ttl_hours=ttl_hours))
            return Exit.OK
        if ephemeral or by_itself:
            seconds = None if ttl_hours is None else ttl_hours * 3600
            detached = report_fd is not None
            return start.serve_ephemeral(on_ready=announcer.ready, ttl_seconds=seconds, detached=detached)
        if not foreground:
            announcer.ready(start.start_detached(given))
            return Exit.OK
        return start.serve(given, on_ready=announcer.ready, log_to_file=report_fd is not None)
    except ParleyError as error:
        announcer.failed(error)
        return error.exit_code
    except Exception as error:
        traceback.print_exc()
        announcer.failed(StartupFailed(f"{type(error).__name__}: {error}"))
        return Exit.ERROR


@command(app, "down")
def down(
    call: Call,
    timeout: StopTimeoutOption = STOP_SECONDS,
) -> None:
    """Stop the daemon. What waits in its outbox is sent after the next start."""
    stopped = load_app("daemon.stop").stop_daemon(timeout)
    if call.json:
        status = "already_stopped" if stopped.pid is None else "stopped"
        call.out.data({"status": status, "pid": stopped.pid, "killed": stopped.killed})
    elif stopped.pid is None:
        call.out.line("No daemon is running.")
    else:
        how = "was killed" if stopped.killed else "has stopped"
        call.out.line(f"The daemon (process {stopped.pid}) {how}.")


@command(app, "status")
def status(call: Call) -> int:
    """Show whether the daemon runs, how each mesh is connected, and what waits.

    Exits with 0 when it runs, 3 when it does not or does not answer.
    """
    try:
        with daemon_client(timeout=STATUS_SECONDS) as client:
            health = client.health()
    except (DaemonNotRunning, DaemonLate):
        return _absent(call, load_app("daemon.offline").holder())
    if call.json:
        call.out.data({"status": "running", **plain(health)})
        return Exit.OK
    call.out.line(f"The daemon (process {health.pid}) has been running for {health.uptime_s} s.")
    call.out.line(f"  listens on {health.socket}{_and_port(health.port)}")
    for problem in health.problems:
        call.out.line(f"  degraded: {problem}")
    call.out.line(f"  to be sent: {health.queue_depth}, in flight: {health.inflight}, dead: {health.dead}")
    call.out.line(f"  bytes on disk: outbox {health.outbox_bytes}, inbox {health.inbox_bytes}")
    call.out.line(f"  unseen: {health.unseen}, not readable: {health.undecryptable}")
    rows = [(each.slug, each.status, each.display_name, each.role, _problem(each)) for each in health.meshes]
    call.out.table(["mesh", "connection", "name", "role", "problem"], rows, empty="No mesh is joined yet.")
    return Exit.OK


@command(app, "version")
def version(call: Call) -> None:
    """Show the running daemon's version, and what was agreed with each broker."""
    with daemon_client() as client:
        found = client.version()
    if call.json:
        call.out.data(plain(found))
    else:
        call.out.line(f"daemon {found.daemon_version}, API {found.ipc_api}, schema {found.schema_version}")


def _absent(call: Call, holder: dict[str, Any] | None) -> int:
    """Nobody answers: because nobody is there, or because who is there cannot."""
    if holder is None:
        return _not_running(call)
    if call.json:
        call.out.data({"status": "not_answering", **holder})
    else:
        call.out.line(f"The daemon (process {holder['pid']}) runs since {holder['started_at']}, but does not answer.")
        call.out.note("`parley daemon down` ends it; nothing that it has taken is lost.")
    return Exit.UNREACHABLE


def _not_running(call: Call) -> int:
    """Why the last daemon ended is part of the answer, if a mesh was over for it."""
    meshes: list[dict[str, Any]] = load_app("daemon.offline").list_meshes()
    ended = [{"mesh": each["slug"], **each["ended"]} for each in meshes if each["ended"] is not None]
    if call.json:
        call.out.data({"status": "not_running", "ended": ended})
        return Exit.UNREACHABLE
    call.out.line("No daemon is running. Start one with `parley daemon up`.")
    for each in ended:
        call.out.line(f"  since {each['at']}: {each['error']}")
    if any(each["removed"] for each in ended):
        call.out.line("  Join by a new invite, or `parley mesh leave`.")
    return Exit.UNREACHABLE


def _and_port(port: int | None) -> str:
    return " alone" if port is None else f" and 127.0.0.1:{port}"


def _problem(mesh: "MeshState") -> str:
    if mesh.ended is not None:
        return mesh.ended.error
    if mesh.lost is not None:
        return f"since {mesh.lost.since}: {mesh.lost.reason}"
    if mesh.split:
        return "the broker has shown different rosters; nothing is sent until an owner runs `parley mesh settle`"
    if mesh.key_epoch is None:
        return f"waits for the mesh key since {mesh.joined_at}"
    told = (
        (mesh.upgrade_needed, "upgrade needed: the mesh has rules that this Parley does not know"),
        (mesh.restoring, "the broker was restored and waits for an owner's daemon"),
        (mesh.key_owed, "a new mesh key is owed"),
        (mesh.single_owner, "a single owner, whose lost key would be final"),
    )
    return "; ".join(text for is_so, text in told if is_so)


def _words_with_folder(report: dict[str, Any]) -> str:
    return f"{_words(report)} PARLEY_DAEMON_HOME={report['home']} leads the other commands to it."


def _words(report: dict[str, Any]) -> str:
    meshes = ", ".join(report["meshes"]) or "no mesh yet"
    ended = "".join(f" {each['error']}." for each in report["ended"])
    return f"The daemon (process {report['pid']}) is running for {meshes}.{ended}"
