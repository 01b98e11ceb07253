"""``parley pipeline``: the lake of all that was ever said. One module a command; importing it registers the command."""

from parley.cli.commands.pipeline import audit, build, bulk, ingest, maintain, report, run, sql
from parley.cli.commands.pipeline.options import app

__all__ = ["app", "audit", "build", "bulk", "ingest", "maintain", "report", "run", "sql"]
