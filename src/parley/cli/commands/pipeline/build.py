"""``parley pipeline build``: from events to tables."""

from typing import Any

from parley.cli.commands.pipeline.options import PipelineCall, pipeline_command


@pipeline_command("build")
def build(call: PipelineCall) -> None:
    """Fold the events in the lake into tables of what is and what was, and count how agents work.

    Only what new events change is written. It may be run again, killed, or run twice at once. Events that cannot be
    folded go to the table silver_quarantine with the reason, and the rest goes on.
    """
    work = call.work("build")
    with call.progress() as progress:
        report: dict[str, Any] = work.run_build(call.place, progress)
    if call.json:
        call.out.data(report)
        return
    silver = report["silver"]
    call.out.line(f"{silver['events']} new events are folded in {report['lake']}.")
    for reason, count in sorted(silver["quarantined"].items()):
        call.out.note(f"Set aside: {count} events, {reason}; see silver_quarantine.")
