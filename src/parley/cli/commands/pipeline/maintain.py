"""``parley pipeline vacuum``, ``compact``, ``history`` and ``restore``: looking after the lake's tables."""

from typing import Annotated, Any, Final

import typer

from parley.cli.commands.pipeline.options import NUMBER_MAX, PipelineCall, pipeline_command

RETENTION_DAYS_MAX: Final = 3650
"""As for the setting."""
_TableOption = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="Only this one, such as bronze_events; else all.")
]
_TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Such as bronze_events.")]


@pipeline_command("vacuum")
def vacuum(
    call: PipelineCall,
    table: _TableOption = None,
    days: Annotated[
        float | None,
        typer.Option(
            "--days",
            min=1,
            max=RETENTION_DAYS_MAX,
            help="Keep what left the table since; else pipeline.retention_days.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
) -> None:
    """Delete files that no table of the lake needs any more.

    Versions from before that can no longer be read or restored.
    """
    work = call.work("maintain")
    with call.progress() as progress:
        report: dict[str, Any] = work.run_vacuum(call.place, progress, table, days, dry_run)
    if call.json:
        call.out.data(report)
    else:
        call.out.table(["table", "files"], report["files"].items(), empty="The lake has no tables yet.")


@pipeline_command("compact")
def compact(call: PipelineCall, table: _TableOption = None) -> None:
    """Put small files of the tables together, so that reading them takes less time.

    What the tables hold stays as it is; reading and ingesting may go on meanwhile.
    """
    work = call.work("maintain")
    with call.progress() as progress:
        report: dict[str, Any] = work.run_compact(call.place, progress, table)
    if call.json:
        call.out.data(report)
        return
    rows = [(name, done["files_before"], done["files_after"]) for name, done in report["tables"].items()]
    call.out.table(["table", "files", "now"], rows, empty="The lake has no tables yet.")


@pipeline_command("history")
def history(
    call: PipelineCall,
    table: _TableArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=NUMBER_MAX, help="Only the newest so many.")] = 20,
) -> None:
    """List the versions of a table, the newest first."""
    report: dict[str, Any] = call.work("maintain").list_history(call.place, table, limit)
    if call.json:
        call.out.data(report)
        return
    rows = [(each["version"], each["at"], each["operation"]) for each in report["versions"]]
    call.out.table(["version", "at", "operation"], rows, empty="No versions.")


@pipeline_command("restore")
def restore(
    call: PipelineCall,
    table: _TableArgument,
    version: Annotated[int, typer.Option("--version", min=0, max=NUMBER_MAX, help="The version to go back to.")],
) -> None:
    """Make a table what it was at a version, as a new version of it.

    The cursors go back with it: what was taken back is read again by the next run.
    """
    report: dict[str, Any] = call.work("maintain").run_restore(call.place, table, version)
    if call.json:
        call.out.data(report)
    else:
        call.out.line(f"{table} is as it was at version {version}; that is now version {report['version']}.")
