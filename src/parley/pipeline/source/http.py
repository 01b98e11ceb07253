"""Reading a log from a running hub, page by page, for hubs whose file this machine cannot open."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from parley.client import Client
from parley.client.calls import Call
from parley.core.errors import InvalidInput
from parley.core.limits import PAGE_LIMIT_MAX
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


def read_batches(wanted: EventRange, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The range as batches of ``LOG_COLUMNS``."""
    rows: list[tuple[Any, ...]] = []
    for event in _events(wanted):
        if wanted.names is None or event.name in wanted.names:
            rows.append(_columns(event))
        if len(rows) >= batch_rows:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _events(wanted: EventRange) -> Iterator[_Row]:
    after, limit = wanted.lo, f"&limit={PAGE_LIMIT_MAX}"
    with _client(wanted.hub) as client:
        while after < wanted.hi:
            try:
                page = client.perform(Call("GET", f"/api/v1/events?after={after}{limit}", _Page))
            except InvalidInput:
                if not limit:
                    raise
                limit = ""  # this hub's pages are smaller; without a word about it, it chooses what it allows
                continue
            for event in page.events:
                if event.event_id > wanted.hi:
                    return
                yield event
            if not page.events:
                return
            after = page.events[-1].event_id


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
