"""Which hubs have news since a gold table was counted: those whose cursors have moved in a table that it follows from.

A table's rows of one hub change with the commits that move the hub's cursor or epoch there, and with no other. That
holds for what builds and compactions commit. If anything else was done to a source in between, or its log no longer
reaches back that far, nobody can say what changed, and all hubs are counted.
"""

from collections.abc import Mapping
from typing import Any, Final

from parley.core.pipeline_errors import LakeNotFound
from parley.pipeline.gold.sources import source_table
from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX, EVENTS
from parley.pipeline.lake.commit import open_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.epochs import EPOCH_PREFIX
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table
from parley.pipeline.silver.reading import cursor_prefix

_OURS: Final = frozenset({"ingest", "build", "compact"})
"""What our own commits say they are, if their cursors tell all that they changed."""
_NO_ROWS: Final = frozenset({"SET TBLPROPERTIES", "ADD COLUMN", "VACUUM START", "VACUUM END"})
"""Operations of delta-rs that change no row."""


def hubs_with_news(lake: Lake, then: Mapping[str, int], now: Mapping[str, int]) -> set[str] | None:
    """The hubs whose rows may differ between two versions of each source; None if that cannot be known."""
    hubs: set[str] = set()
    for name, version in now.items():
        changed = _changed(lake, source_table(name), then[name], version)
        if changed is None:
            return None
        hubs |= changed
    return hubs


def _changed(lake: Lake, table: Table, then: int, now: int) -> set[str] | None:
    if then == now:
        return set()
    if then > now or not _is_plain(lake, table, then, now):
        return None
    try:
        before, after = read_cursors(lake, table, then), read_cursors(lake, table, now)
    except (LakeNotFound, FileNotFoundError):
        return None
    prefix = CURSOR_PREFIX if table is EVENTS else cursor_prefix(table)
    moved = {name for name in after if after[name] != before.get(name)} | (before.keys() - after.keys())
    return {name.removeprefix(each) for each in (prefix, EPOCH_PREFIX) for name in moved if name.startswith(each)}


def _is_plain(lake: Lake, table: Table, then: int, now: int) -> bool:
    """Whether all commits between two versions are of those whose cursors tell what they changed."""
    found = open_table(lake, table)
    commits: list[dict[str, Any]] = found.history(found.version() - then)
    between = {entry["version"]: entry for entry in commits if then < entry["version"] <= now}
    return len(between) == now - then and all(
        entry["parley"] in _OURS if "parley" in entry else entry["operation"] in _NO_ROWS for entry in between.values()
    )
