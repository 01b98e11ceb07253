"""Making the report of a lake: read what it tells, check it, write one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from parley.core.clock import Clock, SystemClock
from parley.core.files import write_atomic
from parley.pipeline.lake import Lake
from parley.pipeline.report.checks import all_checks
from parley.pipeline.report.findings import Findings
from parley.pipeline.report.mesh import read_deliveries
from parley.pipeline.report.page import render
from parley.pipeline.report.reading import read_findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_MODE: Final = 0o600
"""It tells who works with whom: whoever made it decides who else may read it."""
FILE_NAME: Final = "report.html"


def report_path(lake: Lake) -> Path:
    """Where the report of a lake lies, unless another place is asked for."""
    return Path(lake.root) / FILE_NAME


def make_report(spark: "SparkSession", lake: Lake, path: Path, *, clock: Clock | None = None) -> Findings:
    """Writes the report of the lake to the file and returns what it tells. Raises ``LakeNotFound`` without gold."""
    found = read_findings(spark, lake)
    found.deliveries = read_deliveries(lake)
    found.checks = all_checks(lake, found.hubs)
    html = render(found, made_at_ms=(clock or SystemClock()).now_ms())
    write_atomic(path, html.encode(), FILE_MODE)
    return found
