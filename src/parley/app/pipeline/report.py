"""Drawing how the agents work."""

from pathlib import Path
from typing import Any

from parley.app.pipeline.opening import Place, open_lake, spark_session
from parley.core.errors import InvalidInput
from parley.pipeline.lake import Lake
from parley.pipeline.progress import Progress
from parley.pipeline.report.findings import Findings
from parley.pipeline.report.report_file import make_report, report_path


def run_report(place: Place, progress: Progress, out: Path | None) -> dict[str, Any]:
    """Writes the report of the lake, as its tables are."""
    lake = open_lake(place)
    path = target(lake, out)
    with spark_session(place, progress) as spark, progress.stage("report"):
        return summary(lake, path, make_report(spark, lake, path))


def target(lake: Lake, out: Path | None) -> Path:
    """Where the report goes: the file that was named, else one in the lake. Raises ``InvalidInput`` if it cannot."""
    path = report_path(lake) if out is None else out.absolute()
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: name the file to write the report to", out=str(path))
    if not path.parent.is_dir():
        raise InvalidInput(f"There is no folder {path.parent} to write the report to", out=str(path))
    return path


def summary(lake: Lake, path: Path, found: Findings) -> dict[str, Any]:
    """What a program is told of a report."""
    return {
        "lake": lake.root,
        "report": str(path),
        "bytes": path.stat().st_size,
        "totals": found.totals,
        "checks": [check._asdict() for check in found.checks],
    }
