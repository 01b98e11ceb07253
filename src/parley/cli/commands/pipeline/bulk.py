"""``parley pipeline enrich`` and ``embed``: bulk work over every message."""

from typing import Annotated, Any

import typer

from parley.cli.commands.pipeline.options import NUMBER_MAX, PipelineCall, pipeline_command

_RetryOption = Annotated[
    bool, typer.Option("--retry-failed", help="Also messages that it failed on before, at the same version.")
]


@pipeline_command("enrich")
def enrich(
    call: PipelineCall,
    plugin: Annotated[str, typer.Option("--plugin", metavar="NAME", help="A plugin of the workspaces, or a built-in.")],
    since: Annotated[
        int | None,
        typer.Option(
            "--since", min=0, max=NUMBER_MAX, metavar="EVENT", help="Only messages that changed after this event."
        ),
    ] = None,
    write_back: Annotated[
        bool, typer.Option("--write-back", help="Also store what was found in the hubs, which have to run.")
    ] = False,
    retry_failed: _RetryOption = False,
) -> None:
    """Run a plugin on every message that it has not seen at its version yet.

    It runs in the sandbox, as in a hub; a message that it fails on costs only itself. What it finds goes into
    silver_plugin_findings. It may be killed and run again: what is done is not done twice.
    """
    work = call.work("enrich")
    with call.progress() as progress:
        report: dict[str, Any] = work.run_enrich(
            call.place, progress, plugin, since=since, retry_failed=retry_failed, send_back=write_back
        )
    if call.json:
        call.out.data(report)
        return
    call.out.line(
        f"{plugin} looked at {report['done']} messages, found something in {report['found_in']}"
        f" and failed on {report['failed']}."
    )
    for source in report["without"]:
        call.out.note(f"No plugin {plugin} in {source}.")
    if write_back:
        sent = report["write_back"]
        call.out.line(
            f"Of {sent['due']} findings, the hubs stored {sent['stored']} and had {sent['unchanged']} already;"
            f" {sent['stale']} were of messages that changed since, {sent['gone']} of messages that are gone,"
            f" {sent['refused']} were refused."
        )


@pipeline_command("embed")
def embed(
    call: PipelineCall,
    model: Annotated[
        str,
        typer.Option("--model", metavar="MODEL", help="hashed-ngrams, module:attribute, or FILE.py:attribute."),
    ] = "hashed-ngrams",
    retry_failed: _RetryOption = False,
) -> None:
    """Give every message a vector, unless it has one of the model at its version.

    Vectors go into vectors_messages, with the fingerprint of their model. A model of your own runs in the sandbox.
    """
    work = call.work("embed")
    with call.progress() as progress:
        report: dict[str, Any] = work.run_embed(call.place, progress, model, retry_failed=retry_failed)
    if call.json:
        call.out.data(report)
        return
    call.out.line(f"{report['done']} messages have a new vector of model {report['model']}; {report['failed']} failed.")
