"""The whole pipeline on Sparks that are not embedded: a standalone master with two workers, and Spark Connect.

From the data source to the report, on real processes, with every table. What bronze then holds is each hub's log.
"""

from pathlib import Path

from parley.pipeline.hubs import find_hubs
from parley.pipeline.lake import Lake
from parley.workspace import discovery
from tests.campaign.report import Report
from tests.pipeline.bronze import bronze_problems
from tests.pipeline.clusters import connect_server, smoke, standalone
from tests.pipeline.logs import append

KINDS = {"standalone": (standalone, "--master"), "Spark Connect": (connect_server, "--remote")}


def cluster(folder: Path, *, seed: int) -> Report:
    """Control: a hub that has written one more event than the lake has."""
    report = Report("cluster", seed)
    for number, (kind, (start, option)) in enumerate(KINDS.items()):
        place = folder / str(number)
        (place / "spark").mkdir(parents=True)
        with start(place / "spark") as address:
            report.violations += [f"{kind}: {each}" for each in smoke(place, option, address, "--whole")]
        report.runs += 1
        append(discovery.at(place / "hubs" / "a"), range(1))
        lake = Lake.open_or_create(place / "lake")
        report.control += bronze_problems(lake, find_hubs([str(place / "hubs" / "*")]))
    report.facts = {"kinds": list(KINDS)}
    return report
