"""``parley pipeline audit``: are the tables what the log says?"""

from typing import Any

from parley.cli.commands.pipeline.options import BrokersOption, PipelineCall, pipeline_command
from parley.core.exits import Exit

_SIGNS = {"warn": ("⚠", "yellow"), "error": ("✗", "red")}


@pipeline_command("audit")
def audit(call: PipelineCall, broker: BrokersOption = None) -> int:
    """Compare the tables of hubs with what their logs add up to, row by row, and the lake with the logs.

    Of brokers, ask whether their tables agree about every message and delivery. Works on one moment of each, so hubs
    and brokers may run. Exits with 5 when there is damage, and lists it.
    """
    with call.progress() as progress:
        report: Any = call.work("audit").run_audit(call.with_brokers(broker), progress)
    if call.json:
        call.out.data(report.summary())
    else:
        show_audit(call, report)
    return Exit.DAMAGE if report.damaged else Exit.OK


def show_audit(call: PipelineCall, report: Any) -> None:
    """Prints what did not hold, and the verdict."""
    out = call.out
    for verdict in report.verdicts:
        if verdict.status not in _SIGNS:
            continue
        sign, color = _SIGNS[verdict.status]
        out.line(f"{verdict.check.id}: {verdict.message}", sign=f"[{sign}] ", color=color)
        for finding in verdict.listed:
            out.line(f"    {report.explain(finding)}")
        if verdict.total > len(verdict.listed):
            out.line(f"    and {verdict.total - len(verdict.listed):,} more")
        out.line(f"    Likely: {verdict.check.cause}")
        out.line(f"    To do: {verdict.check.remedy}")
    held = sum(verdict.status == "ok" for verdict in report.verdicts)
    out.line(f"{held} checks hold. {report.verdict[0].upper()}{report.verdict[1:]}.")
