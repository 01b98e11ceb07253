"""``parley pipeline run``: from the hubs' logs to the report."""

from typing import Any

from parley.cli.commands.pipeline.options import PipelineCall, pipeline_command
from parley.cli.commands.pipeline.report import OpenOption, OutOption, show_report


@pipeline_command("run")
def run(call: PipelineCall, open_it: OpenOption = False, out: OutOption = None) -> None:
    """Take in what is new, build the tables, check them, and draw the report.

    Each stage commits by itself, and only what changed is done again.
    """
    work = call.work("run")
    with call.progress() as progress:
        made: dict[str, Any] = work.run_pipeline(call.place, progress, out)
    for problem in made["ingest"]["problems"]:
        call.out.note(f"Problem: {problem}")
    for check in made["checks"]:
        if check["verdict"] in ("warn", "error"):
            call.out.note(f"Check {check['name']}: {check['message']}")
    show_report(call, made, open_it)
