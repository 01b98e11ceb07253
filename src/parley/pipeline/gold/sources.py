"""Where gold is counted from: bronze's events and some of silver's tables, each at one version."""

from parley.pipeline.gold.counting import SOURCES
from parley.pipeline.lake.catalogue import find_table
from parley.pipeline.lake.commit import table_version
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table


def source_table(name: str) -> Table:
    """The table that a source is."""
    return find_table("bronze_events" if name == "events" else f"silver_{name}")


def newest_versions(lake: Lake) -> dict[str, int]:
    """The version of each source now, by its name."""
    return {name: table_version(lake, source_table(name)) for name in SOURCES}
