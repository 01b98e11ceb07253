"""Whether bronze is the history: each message once, as it was accepted, as far as the lake has come.

Messages are compared by their ids, which no restore gives again. What bronze holds of an earlier epoch and the broker
does not was lost by the restore, which was told then.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from parley.pipeline.audit.brokers.copies import Moment
from parley.pipeline.audit.brokers.store_checks import DAY_MS, KEPT_DAYS_MIN, removed_by_the_broker
from parley.pipeline.audit.findings import Finding
from parley.pipeline.brokers.bronze_messages import cursor_name
from parley.pipeline.brokers.ranges import MessageRange, read_bounds, read_messages, split
from parley.pipeline.brokers.reading import quoted
from parley.pipeline.brokers.rows import read_rows
from parley.pipeline.brokers.schema import STORED_MESSAGES
from parley.pipeline.lake.catalogue.mesh import BROKER_MESSAGES
from parley.pipeline.lake.commit import open_table
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import bounds_meet

_COMPARED: Final = [name for name in STORED_MESSAGES.names if name not in ("mesh", "request_fingerprint")]
"""A mesh may be called something else later, and an id be forgotten before its message is."""
_ASKED_AT_ONCE: Final = 500
_PRUNED: Final = "SELECT broker_message_id FROM client_message_dedupe WHERE mesh_id = {mesh} AND history_available = 0"
_IDS: Final = pa.schema([("broker_message_id", pa.string())])


def bronze_findings(lake: Lake, moment: Moment, now_ms: int) -> Iterator[Finding]:
    """What bronze lacks, has twice, has otherwise or has alone of one broker."""
    assert moment.held_at is not None
    table = open_table(lake, BROKER_MESSAGES, moment.held_at)
    for mesh_id, last in read_bounds(moment.store).items():
        reached = table.transaction_version(cursor_name(moment.broker, mesh_id))
        if reached is None:
            continue
        whole = MessageRange(moment.broker, mesh_id, 0, max(reached, last))
        for part in split(whole):
            yield from _compare(lake, moment, part, reached, now_ms)
        yield from _never_taken(lake, moment, mesh_id)


def _compare(lake: Lake, moment: Moment, part: MessageRange, reached: int, now_ms: int) -> Iterator[Finding]:
    held = _held(lake, moment, part)
    stored: Any = pa.Table.from_batches(
        [batch.select(_COMPARED) for batch in read_messages(moment.store, part)],
        schema=pa.schema([STORED_MESSAGES.field(name) for name in _COMPARED]),
    )
    arrow: Any = pc
    both = arrow.is_in(held["broker_message_id"], value_set=stored["broker_message_id"].combine_chunks())
    due = stored.filter(arrow.less_equal(stored["history_id"], reached))
    common = held.filter(both)
    if not common.select(_COMPARED).combine_chunks().equals(due.combine_chunks()):
        yield from _differences(moment, due, common)
    yield from _unknown(moment, held.filter(arrow.invert(both)), now_ms)


def _held(lake: Lake, moment: Moment, part: MessageRange) -> Any:
    """Bronze's rows of the range, of every epoch, in the order of their numbers."""
    broker_id = moment.broker.broker_id
    within: Any = (
        (pc.field("broker_id") == broker_id)
        & (pc.field("mesh_id") == part.mesh_id)
        & (pc.field("history_id") > part.lo)
        & (pc.field("history_id") <= part.hi)
    )

    def may_hold(entry: Mapping[str, Any]) -> bool:
        numbers = bounds_meet(entry, "history_id", at_least=part.lo + 1, at_most=part.hi)
        return numbers and bounds_meet(entry, "broker_id", at_least=broker_id, at_most=broker_id)

    columns = [*_COMPARED, "epoch"]
    rows = read_rows(
        lake, BROKER_MESSAGES, version=moment.held_at, may_hold=may_hold, columns=columns, condition=within
    )
    return rows.sort_by([("history_id", "ascending"), ("broker_message_id", "ascending")])


def _differences(moment: Moment, due: Any, common: Any) -> Iterator[Finding]:
    held: dict[str, list[dict[str, Any]]] = {}
    for row in common.select(_COMPARED).to_pylist():
        held.setdefault(row["broker_message_id"], []).append(row)
    for row in due.to_pylist():
        message_id = row["broker_message_id"]
        rows = held.get(message_id, [])
        if not rows:
            yield _finding(moment, "bronze.mesh_missing", message_id, "once, as it was accepted", "nothing")
            continue
        if len(rows) > 1:
            yield _finding(moment, "bronze.mesh_twice", message_id, "once", f"{len(rows)} times")
        column = next((name for each in rows for name in _COMPARED if each[name] != row[name]), None)
        if column is not None:
            other = next(each[column] for each in rows if each[column] != row[column])
            yield _finding(moment, "bronze.mesh_differs", message_id, str(row[column]), str(other), column)


def _unknown(moment: Moment, alone: Any, now_ms: int) -> Iterator[Finding]:
    """What bronze has of this epoch and the history has not, unless the broker removed it."""
    young_ms = now_ms - KEPT_DAYS_MIN * DAY_MS
    rows = [row for row in alone.to_pylist() if row["epoch"] == moment.broker.epoch]
    for start in range(0, len(rows), _ASKED_AT_ONCE):
        part = rows[start : start + _ASKED_AT_ONCE]
        ages = {row["broker_message_id"]: row["accepted_ms"] for row in part}
        removed = removed_by_the_broker(moment, [*ages], young_ms, ages)
        for message_id in ages:
            if message_id not in removed:
                yield _finding(moment, "bronze.mesh_unknown", message_id, "nothing", "a message")


def _never_taken(lake: Lake, moment: Moment, mesh_id: str) -> Iterator[Finding]:
    of_mesh: Any = (pc.field("broker_id") == moment.broker.broker_id) & (pc.field("mesh_id") == mesh_id)
    held = read_rows(lake, BROKER_MESSAGES, version=moment.held_at, columns=["broker_message_id"], condition=of_mesh)
    known = held["broker_message_id"].combine_chunks()
    arrow: Any = pc
    for batch in moment.store.batches(_IDS, _PRUNED.format(mesh=quoted(mesh_id))):
        ids: Any = batch.column(0)
        for message_id in ids.filter(arrow.invert(arrow.is_in(ids, value_set=known))).to_pylist():
            yield _finding(moment, "bronze.mesh_pruned", message_id, "once, as it was accepted", "nothing")


def _finding(
    moment: Moment, check: str, message_id: str, expected: str, found: str, column: str | None = None
) -> Finding:
    return Finding(
        check,
        moment.broker.broker_id,
        BROKER_MESSAGES.view,
        message_id,
        column,
        expected=expected,
        found=found,
    )
