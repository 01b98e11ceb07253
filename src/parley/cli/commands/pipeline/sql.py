"""``parley pipeline sql``: ask the lake."""

import csv
import json
import sys
from itertools import islice
from typing import Annotated, Any, Literal

import typer

from parley.cli.commands.pipeline.options import NUMBER_MAX, PipelineCall, pipeline_command


@pipeline_command("sql")
def sql(
    call: PipelineCall,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="For instance: select count(*) from bronze_events")],
    form: Annotated[Literal["table", "csv"], typer.Option("--format", help="How to print the answer.")] = "table",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=NUMBER_MAX, help="Print at most so many rows.")
    ] = None,
) -> None:
    """Ask the lake in SQL. Its tables have names such as bronze_events.

    The answer is a table, CSV with a line of names, with --json one object with columns and rows, or with
    --jsonl one object a row.
    """

    def show(answer: Any) -> None:
        rows = islice(answer.rows, limit)
        if call.out.jsonl:
            call.out.data({"rows": (dict(zip(answer.columns, row, strict=True)) for row in rows)}, rows="rows")
        elif call.json:
            call.out.data({"columns": answer.columns, "rows": list(rows)})
        elif form == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(answer.columns)
            writer.writerows(map(_cells, rows))
        else:
            call.out.table(answer.columns, map(_cells, rows), empty="No rows.")

    work = call.work("sql")
    with call.progress() as progress:
        work.ask(call.place, query, progress, show)


def _cells(row: list[Any]) -> list[Any]:
    """A row of a table, where what has parts of its own is JSON."""
    return [json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value for value in row]
