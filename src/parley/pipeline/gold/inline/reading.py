"""The sources of gold in Arrow: only the columns that are counted, in batches, so that no text of a message is kept."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parley.pipeline.gold.sources import source_table
from parley.pipeline.lake.commit import WHOLE, live_files, open_table
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet
from parley.pipeline.lake.tables import Table

_SPACE: Final = r"[ \t\n\x0B\f\r]"
_LINE_END: Final = r"[\n\r\x{85}\x{2028}\x{2029}]"
ASKS: Final = rf"[?？؟]{_SPACE}*(?:{_LINE_END}|\z)"
"""What ``facts`` takes for a line that asks, spelled out: Arrow's patterns mean other things by a space and a line."""
_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_AHEAD: Final = 2
"""Batches that are read before they are asked for: each has the texts of a hundred thousand messages."""


class UnclearError(ValueError):
    """The tables hold something whose meaning only Spark can tell."""


class Reader:
    """The tables of a lake at the versions that are counted, of all hubs or of some."""

    def __init__(self, lake: Lake, origin: Mapping[str, int], hubs: Collection[str] | None) -> None:
        """``origin`` has the versions by the names of the sources."""
        self._lake, self._origin, self._hubs = lake, origin, None if hubs is None else sorted(hubs)

    def rows(self, name: str) -> int | None:
        """How many rows of these hubs a source has at most, by its log; None if that does not tell."""
        counts: list[Any] = [entry.get("num_records") for entry in self._entries(source_table(name), name).values()]
        return None if None in counts else sum(counts)

    def versions(self) -> Iterator[Any]:
        """The versions of messages in batches: of their texts, how long they are and whether they ask."""
        text = pc.field("content_raw")
        return self._batches(
            "message_versions",
            {
                **_same("db_id", "id", "change", "topic_id", "actor", "reply_to"),
                "event_id": pc.field("valid_from_event"),
                "at": pc.field("time"),
                "characters": pc.utf8_length(text),
                "asks": pc.match_substring_regex(text, ASKS),
            },
        )

    def events(self) -> Iterator[Any]:
        """The events of bronze in batches. Raises ``UnclearError`` if a time is not written as hubs write it."""
        ts = pc.field("ts")
        columns = {"at": ts.cast(_MOMENT), "is_plain": pc.match_substring_regex(ts, _TIME)}
        for batch in self._batches("events", {**_same("db_id", "event_id", "name", "source"), **columns}):
            if batch.num_rows and not pc.all(pc.fill_null(batch["is_plain"], False)).as_py():
                raise UnclearError("a time is not written as the hub writes it")
            yield batch

    def times(self, event_ids: Sequence[int]) -> Any:
        """How the times of some events are written: ``db_id``, ``event_id`` and ``ts``."""
        wanted = pc.field("event_id").isin(pa.array(event_ids, pa.int64()))
        return self._scan("events", _same("db_id", "event_id", "ts"), wanted).to_table()

    def work(self) -> Any:
        """The events about tasks and leases."""
        name = pc.field("name")
        wanted = pc.starts_with(name, "task.") | pc.starts_with(name, "lease.")
        columns = {**_same("db_id", "event_id", "name", "entity_id"), "at": pc.field("ts").cast(_MOMENT)}
        return self._scan("events", columns, wanted).to_table()

    def whole(self, name: str, *columns: str) -> Any:
        """Some columns of a source as they are."""
        return self._scan(name, _same("db_id", *columns)).to_table()

    def _batches(self, name: str, columns: dict[str, Any]) -> Iterator[Any]:
        try:
            yield from self._scan(name, columns).to_batches()
        except pa.ArrowInvalid as error:
            raise UnclearError(f"{name} cannot be read: {error}") from error

    def _scan(self, name: str, columns: dict[str, Any], condition: Any = None) -> Any:
        table = source_table(name)
        root = Path(self._lake.path(table))
        files: Any = pads.dataset(
            [str(root / path) for path in self._entries(table, name)], schema=table.file_schema, format="parquet"
        )
        if self._hubs is not None:
            of_hubs = pc.field("db_id").isin(pa.array(self._hubs, pa.string()))
            condition = of_hubs if condition is None else of_hubs & condition
        return files.scanner(columns=columns, filter=condition, batch_readahead=_AHEAD, fragment_readahead=1)

    def _entries(self, table: Table, name: str) -> dict[str, dict[str, Any]]:
        entries = live_files(open_table(self._lake, table, self._origin[name]), WHOLE)
        if self._hubs is None:
            return entries
        return {path: entry for path, entry in entries.items() if self._may_hold(entry, self._hubs)}

    def _may_hold(self, entry: Mapping[str, Any], hubs: list[str]) -> bool:
        return any(bounds_meet(entry, "db_id", at_least=hub, at_most=hub) for hub in hubs)


def _same(*names: str) -> dict[str, Any]:
    return {name: pc.field(name) for name in names}
