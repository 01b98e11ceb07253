"""Reading a log from a running hub, page by page, for hubs whose file this machine cannot open.

Between two pages the hub may be stopped, and another log put in its place. So each page begins with the event that the
one before it ended with.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from parley.client import Client
from parley.client.calls import Call
from parley.core.errors import CursorExpired, InvalidInput
from parley.core.limits import PAGE_LIMIT_MAX
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.hubs import HubRef
from parley.pipeline.source.ranges import Bounds, EventRange
from parley.pipeline.source.schema import EVENT_SCHEMA, LOG_COLUMNS
from parley.wire.events import Entity, Scope

AGENT: Final = "parley-pipeline"
"""The name under which the hub counts our requests."""
PATIENCE_SECONDS: Final = 120.0
"""A hub that limits our rate, or restarts, is waited for; the task is not lost."""
_SCHEMA: Final = pa.schema([EVENT_SCHEMA.field(name) for name in LOG_COLUMNS])


class _Row(msgspec.Struct, frozen=True):
    """An event of ``GET /api/v1/events`` whose payload stays the text that it is."""

    event_id: int
    ts: str
    name: str
    data_json: msgspec.Raw
    scope: Scope
    entity: Entity


class _Page(msgspec.Struct, frozen=True):
    replay_until: int
    events: list[_Row]


def read_bounds(hub: HubRef) -> Bounds:
    """What the hub's log holds now."""
    with _client(hub) as client:
        page = client.perform(Call("GET", "/api/v1/events?limit=1", _Page))
    return Bounds(page.events[0].event_id - 1 if page.events else page.replay_until, page.replay_until)


def read_batches(wanted: EventRange, batch_rows: int, told: Callable[[Bounds], None]) -> Iterator[pa.RecordBatch]:
    """The range as batches of ``LOG_COLUMNS``, after the event at its lower end if all names are wanted.

    ``told`` is told at the end what the log holds. Raises ``LakeConflict`` if it changed while it was read.
    """
    rows: list[tuple[Any, ...]] = []
    for event in _events(wanted, told):
        if wanted.names is None or (event.name in wanted.names and event.event_id > wanted.lo):
            rows.append(_columns(event))
        if len(rows) >= batch_rows:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _events(wanted: EventRange, told: Callable[[Bounds], None]) -> Iterator[_Row]:
    """From the event at the lower end on, if the hub still has it."""
    reached, last = 0, None
    with _Pages(wanted.hub) as pages:
        page = pages.beginning(wanted.lo)
        while True:
            reached = page.replay_until
            for event in page.events:
                if event.event_id > wanted.hi:
                    break
                yield event
                last = event
            if not page.events or last is None or page.events[-1].event_id >= min(wanted.hi, reached):
                break
            page = pages.following(last)
    told(Bounds(read_bounds(wanted.hub).lo, reached))


class _Pages:
    """The pages of a hub's log."""

    def __init__(self, hub: HubRef) -> None:
        self._source, self._client = hub.source, _client(hub)
        self._limit = f"&limit={PAGE_LIMIT_MAX}"

    def __enter__(self) -> "_Pages":
        self._client.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def beginning(self, lo: int) -> _Page:
        """The page that begins with the event at ``lo``, or after it where that was archived."""
        if lo:
            try:
                return self._page(lo - 1)
            except CursorExpired:
                pass
        try:
            return self._page(lo)
        except CursorExpired as error:
            raise LakeConflict(f"Events after {lo} of {self._source} were archived") from error

    def following(self, last: _Row) -> _Page:
        """The page after this event, which still has to be the same."""
        try:
            page = self._page(last.event_id - 1)
        except CursorExpired as error:
            raise LakeConflict(f"Events of {self._source} were archived while they were read") from error
        if not page.events or _columns(page.events[0]) != _columns(last):
            raise LakeConflict(f"{self._source} has another event {last.event_id} than a moment ago")
        if len(page.events) == 1:  # a hub whose pages have one event
            return self._page(last.event_id)
        return _Page(page.replay_until, page.events[1:])

    def _page(self, after: int) -> _Page:
        try:
            return self._client.perform(Call("GET", f"/api/v1/events?after={after}{self._limit}", _Page))
        except InvalidInput:
            if not self._limit:
                raise
            self._limit = ""  # this hub's pages are smaller; without a word about it, it chooses what it allows
            return self._page(after)


def _client(hub: HubRef) -> Client:
    return Client(url=hub.url, token=hub.token(), agent=AGENT, patience_seconds=PATIENCE_SECONDS)


def _columns(event: _Row) -> tuple[Any, ...]:
    scope, entity = event.scope, event.entity
    return (
        event.event_id,
        event.ts,
        event.name,
        scope.channel_id,
        scope.topic_id,
        scope.topic_id2,
        entity.type,
        entity.id,
        bytes(event.data_json).decode(),
    )


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
