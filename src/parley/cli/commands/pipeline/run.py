"""``parley pipeline run``: from the hubs' logs to the report."""

from typing import Annotated, Any

import typer

from parley.cli.commands.pipeline.audit import show_audit
from parley.cli.commands.pipeline.options import BrokersOption, PipelineCall, pipeline_command
from parley.cli.commands.pipeline.report import OpenOption, OutOption, show_report
from parley.core.exits import Exit

AuditOption = Annotated[
    bool, typer.Option("--audit", help="Compare the hubs' tables with their logs too, as `parley pipeline audit` does.")
]


@pipeline_command("run")
def run(
    call: PipelineCall,
    open_it: OpenOption = False,
    out: OutOption = None,
    audit: AuditOption = False,
    broker: BrokersOption = None,
) -> int:
    """Take in what is new, build the tables, check them, and draw the report.

    Each stage commits by itself, and only what changed is done again. The lake's own checks are done each time: gaps,
    doubles, cursors, clocks, what was set aside. Exits with 5 when a check finds damage.
    """
    work = call.work("run")
    with call.progress() as progress:
        made: dict[str, Any] = work.run_pipeline(call.with_brokers(broker), progress, out, with_audit=audit)
    audited: Any = made.pop("audit", None)
    for problem in (*made["ingest"]["problems"], *made["ingest"]["brokers"]["problems"]):
        call.out.note(f"Problem: {problem}")
    for check in made["checks"]:
        if check["verdict"] in ("warn", "error"):
            call.out.note(f"Check {check['name']}: {check['message']}")
    if audited is not None and call.json:
        made["audit"] = audited.summary()
    elif audited is not None:
        show_audit(call, audited)
    show_report(call, made, open_it)
    return Exit.DAMAGE if made["damaged"] else Exit.OK
