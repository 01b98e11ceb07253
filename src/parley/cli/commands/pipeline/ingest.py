"""``parley pipeline ingest``: new events into the lake."""

from typing import Annotated, Any

import typer

from parley.cli.commands.pipeline.options import PipelineCall, pipeline_command


@pipeline_command("ingest")
def ingest(
    call: PipelineCall,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with what comes, until SIGINT or SIGTERM.")] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, max=3600, metavar="SECONDS", help="With --watch: between two looks.")
    ] = 2.0,
) -> None:
    """Take new events of the hubs into the lake, each once.

    Running hubs are read too, and never wait for it. It may be run again, killed, or run twice at once: the lake holds
    every event once.
    """
    work = call.work("ingest")
    with call.progress() as progress:
        place = call.place
        report: dict[str, Any] = work.run_watch(place, progress, every) if watch else work.run_ingest(place, progress)
    if call.json:
        call.out.data(report)
        return
    call.out.line(f"{report['events']} new events are in {report['lake']}.")
    for problem in report["problems"]:
        call.out.note(f"Problem: {problem}")
