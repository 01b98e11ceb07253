"""``parley doctor``: is this workspace in order?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.call import Call, command, load_app, single
from parley.core.clock import SystemClock
from parley.core.errors import HubRunning

if TYPE_CHECKING:
    from parley.workspace.checks import Check

app = single()

_SIGNS = {"ok": ("✓", "green"), "warn": ("⚠", "yellow"), "error": ("✗", "red")}


@command(app, "doctor")
def doctor(
    call: Call,
    repair: Annotated[
        bool, typer.Option("--repair", help="Fix modes, remove stale files, merge the log, rebuild indexes, vacuum.")
    ] = False,
    checkpoint: Annotated[bool, typer.Option("--checkpoint", help="Merge the write-ahead log.")] = False,
) -> int:
    """Check a workspace, and repair what can be repaired.

    Exits with 0 when all is well or there are only warnings, 20 when a newer Parley wrote the database, 21 when it is
    damaged, else 1. --repair changes nothing that was said, and needs the hub to be stopped for all but the modes of
    files. A database that a newer Parley wrote is left as it is.
    """
    workspace = call.workspace()
    examining, repairing = load_app("doctor"), load_app("repair")
    repairs: list[str] = []
    refused: HubRunning | None = None
    if repair:
        try:
            repairs += repairing.repair(workspace, SystemClock())
        except HubRunning as error:
            refused = error
            repairs += error.details["repairs"]  # type: ignore[arg-type]
    elif checkpoint:
        repairs.append(repairing.checkpoint(workspace))
    checks: list[Check] = examining.examine(workspace)
    if refused is not None:
        checks.append(examining.Check("repair", "error", str(refused), refused.hint))
    report: dict[str, Any] = examining.summary(workspace, checks, repairs)
    if call.json:
        call.out.data(report)
    else:
        _show(call, report)
    return examining.exit_code(checks)


def _show(call: Call, report: dict[str, Any]) -> None:
    from parley import __version__

    out = call.out
    out.line(f"Parley Doctor {__version__}\n\nWorkspace: {report['workspace_root']}\nDatabase: {report['db_id']}\n")
    for check in report["checks"]:
        sign, color = _SIGNS[check["status"]]
        out.line(f"{check['name'].replace('_', ' ')}: {check['message']}", sign=f"[{sign}] ", color=color)
    for title, lines in (
        ("Repairs", report["repairs"]),
        ("To do", [f"{check['name']}: {check['fix']}" for check in report["checks"] if check["fix"]]),
    ):
        if lines:
            out.line(f"\n{title}:")
            for line in lines:
                out.line(f"- {line}")
    out.line(f"\nSummary: {_count(report['warnings'], 'warning')}, {_count(report['errors'], 'error')}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
