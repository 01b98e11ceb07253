"""The build in the driver: read the news and what they are about, fold all of it, and only then write."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from parley.pipeline.lake.catalogue.bronze import EVENTS
from parley.pipeline.lake.catalogue.silver import QUARANTINE
from parley.pipeline.lake.commit import WHOLE, commit, discard, ensure_table, live_files, open_table, table_version
from parley.pipeline.lake.place import Lake
from parley.pipeline.silver.inline.folding import Change, Event, NotPlainError, fold_news
from parley.pipeline.silver.inline.rows import Shelf, Wanted, new_rows, read_arrow, write_rows
from parley.pipeline.silver.reading import Marks, Stretch, may_hold, silver_marks, steps, stretch
from parley.pipeline.silver.specs import SPECS, Spec

INLINE_EVENTS: Final = 100_000
"""News up to this size are folded by the driver: a few seconds, where Spark needs longer to plan its jobs."""
ABOUT: Final = {"parley": "build"}

_KEYS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "channels": None,
    "topics": None,
    "messages": (
        "message.created",
        "message.edited",
        "message.deleted",
        "message.moved_topic",
        "message.enriched",
    ),
    "message_versions": ("message.edited", "message.deleted", "message.moved_topic"),
    "topic_titles": ("topic.renamed",),
    "attachments": ("topic.attachment_added",),
    "enrichments": ("message.enriched", "message.edited", "message.deleted"),
    "tasks": None,
    "leases": None,
    "agents": None,
}
"""The events that name the rows of a table which must be known; None where all of a hub's rows are."""


@dataclass(slots=True)
class Built:
    """What was written: rows of each table, and buckets that were written again."""

    tables: dict[str, int] = field(default_factory=dict[str, int])
    buckets: int = 0


def build_inline(
    lake: Lake, until: Marks, most: int, progress: Callable[[str, int, int], None] = lambda table, done, total: None
) -> Built | None:
    """Brings all tables up to these events, or returns None without having written anything: that is work for Spark.

    Raises ``LakeConflict`` if another run was quicker.
    """
    stands = silver_marks(lake, QUARANTINE)
    news = stretch(stands, until)
    if not news or sum(hi - lo for lo, hi in news.values()) > most:
        return None
    if any(silver_marks(lake, spec.table) != stands for spec in SPECS):
        return None
    try:
        events = _read_news(lake, news)
        shelves = _fetch(lake, events)
        changes = _fold(events, shelves)
        added = {spec.table.name: new_rows(spec, changes[spec.table.name]) for spec in SPECS}
    except (NotPlainError, pa.ArrowException, OverflowError, UnicodeError):
        return None
    commit(lake, QUARANTINE, [], cursors=steps(QUARANTINE, stands, until), about=ABOUT)
    built = Built()
    for done, spec in enumerate(SPECS, start=1):
        name = spec.table.name
        rows, buckets = _write(lake, spec, shelves.get(name), added[name], changes[name], stands, until)
        built.tables[name], built.buckets = rows, built.buckets + buckets
        progress(name, done, len(SPECS))
    return built


def _read_news(lake: Lake, news: Stretch) -> dict[str, list[Event]]:
    """The new events of each hub, in their order."""
    entries = live_files(open_table(lake, EVENTS), WHOLE)
    paths = [path for path, entry in entries.items() if may_hold(entry, news)]
    lowest, highest = min(lo for lo, _ in news.values()), max(hi for _, hi in news.values())
    among: Any = (pc.field("event_id") > lowest) & (pc.field("event_id") <= highest)
    rows = read_arrow(Path(lake.path(EVENTS)), paths, EVENTS, among).sort_by("event_id")
    events: dict[str, list[Event]] = {db_id: [] for db_id in news}
    columns = (rows[name].to_pylist() for name in ("db_id", *Event._fields))
    for db_id, *values in zip(*columns, strict=True):
        event = Event(*values)
        if db_id in news and news[db_id][0] < event.event_id <= news[db_id][1]:
            events[db_id].append(event)
    return events


def _fetch(lake: Lake, events: Mapping[str, list[Event]]) -> dict[str, Shelf]:
    """The rows that the news may be about."""
    names = frozenset(event.name for each in events.values() for event in each)
    shelves: dict[str, Shelf] = {}
    for spec in SPECS:
        if spec.table.name not in _KEYS:
            continue
        naming = _KEYS[spec.table.name]
        wanted: Wanted = {
            db_id: None if naming is None else {event.entity_id for event in each if event.name in naming}
            for db_id, each in events.items()
        }
        version = table_version(lake, spec.table)
        if naming is not None and names.isdisjoint(naming):
            wanted = {}
        shelves[spec.table.name] = Shelf(lake, spec, version, wanted)
    return shelves


def _fold(events: Mapping[str, list[Event]], shelves: Mapping[str, Shelf]) -> dict[str, dict[str, Change]]:
    """The changes of each table by hub."""
    changes: dict[str, dict[str, Change]] = {spec.table.name: {} for spec in SPECS}
    for db_id, each in events.items():
        known = {name: shelf.rows.get(db_id, []) for name, shelf in shelves.items()}
        for name, change in fold_news(each, known).items():
            changes[name][db_id] = change
    return changes


def _write(
    lake: Lake,
    spec: Spec,
    shelf: Shelf | None,
    added: Any,
    changes: Mapping[str, Change],
    stands: Marks,
    until: Marks,
) -> tuple[int, int]:
    """Writes and commits one table. Returns the rows and the buckets that were written."""
    moved = steps(spec.table, stands, until)
    if not added.num_rows and not any(change.touched for change in changes.values()):
        ensure_table(lake, spec.table)
        commit(lake, spec.table, [], cursors=moved)
        return 0, 0
    rows, buckets = (added, []) if shelf is None else shelf.merged(added, changes)
    files = write_rows(lake, spec, rows)
    try:
        replaced = [{"bucket": bucket} for bucket in buckets]
        base = shelf.version if shelf is not None else None
        commit(lake, spec.table, files, cursors=moved, replace=replaced, base=base, about=ABOUT)
    except BaseException:
        discard(lake, spec.table, files)
        raise
    return sum(file.rows for file in files), len(buckets)
