"""Looking after the lake's tables."""

from dataclasses import asdict
from typing import Any

from parley.app.pipeline.opening import Place, open_lake, settings_of
from parley.pipeline.lake import maintain
from parley.pipeline.lake.catalogue import TABLES, find_table
from parley.pipeline.lake.commit import exists
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table
from parley.pipeline.progress import Progress


def run_vacuum(place: Place, progress: Progress, table: str | None, days: float | None, dry: bool) -> dict[str, Any]:
    """Deletes files that no kept version of the tables needs."""
    lake = open_lake(place)
    kept = settings_of(place).pipeline.retention_days if days is None else days
    removed: dict[str, int] = {}
    with progress.stage("vacuum", "tables") as stage:
        for each in _chosen(lake, table):
            removed[each.view] = len(maintain.vacuum(lake, each, days=kept, dry_run=dry))
            stage.tell(len(removed))
    return {"lake": lake.root, "dry_run": dry, "retention_days": kept, "files": removed}


def run_compact(place: Place, progress: Progress, table: str | None) -> dict[str, Any]:
    """Puts small files of the tables together."""
    lake = open_lake(place)
    done: dict[str, dict[str, int]] = {}
    with progress.stage("compact", "tables") as stage:
        for each in _chosen(lake, table):
            done[each.view] = asdict(maintain.compact(lake, each))
            stage.tell(len(done))
    return {"lake": lake.root, "tables": done}


def list_history(place: Place, table: str, limit: int) -> dict[str, Any]:
    """The newest versions of a table."""
    lake = open_lake(place)
    return {"lake": lake.root, "table": table, "versions": maintain.history(lake, find_table(table), limit)}


def run_restore(place: Place, table: str, version: int) -> dict[str, Any]:
    """Makes a table what it was at a version."""
    lake = open_lake(place)
    restored = maintain.restore(lake, find_table(table), version)
    return {"lake": lake.root, "table": table, "restored": version, "version": restored}


def _chosen(lake: Lake, table: str | None) -> list[Table]:
    return [find_table(table)] if table is not None else [each for each in TABLES if exists(lake, each)]
