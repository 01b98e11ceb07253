"""``parley pipeline ingest``: new events into the lake."""

from typing import Annotated, Any

import typer

from parley.cli.commands.pipeline.options import BrokersOption, PipelineCall, pipeline_command


@pipeline_command("ingest")
def ingest(
    call: PipelineCall,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with what comes, until SIGINT or SIGTERM.")] = False,
    every: Annotated[
        float,
        typer.Option("--every", min=0.1, max=3600, metavar="SECONDS", help="With --watch: between two looks."),
    ] = 2.0,
    broker: BrokersOption = None,
) -> None:
    """Take new events of the hubs, and new messages of brokers, into the lake, each once.

    Running hubs and brokers are read too, and never wait for it. It may be run again, killed, or run twice at once: the
    lake holds every event and every message once.
    """
    work = call.work("ingest")
    with call.progress() as progress:
        place = call.with_brokers(broker)
        report: dict[str, Any] = work.run_watch(place, progress, every) if watch else work.run_ingest(place, progress)
    if call.json:
        call.out.data(report)
        return
    taken = report["brokers"]
    if not broker or report["cursors"]:
        call.out.line(f"{report['events']} new events are in {report['lake']}.")
    if broker:
        call.out.line(
            f"{taken['messages']} new messages of brokers, and {taken['deliveries']} deliveries that changed, are in"
            f" {report['lake']}."
        )
    for problem in (*report["problems"], *taken["problems"]):
        call.out.note(f"Problem: {problem}")
