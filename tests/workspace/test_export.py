"""Export as JSON lines."""

import io
import json
from typing import Any

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.wire.events import EventEnvelope, decode_server_frame
from parley.workspace import queries
from parley.workspace.export import KINDS, export_jsonl
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading
from tests.hub.histories import History
from tests.workspace.databases import START_MS


@pytest.fixture
def filled(connection: apsw.Connection) -> apsw.Connection:
    history = History(connection, 11, ManualClock(START_MS))
    history.message("first")
    history.run(200)
    return connection


def export(connection: apsw.Connection, **options: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    out = io.BytesIO()
    counts = export_jsonl(connection, out, now_ms=START_MS, **options)
    return [json.loads(line) for line in out.getvalue().splitlines()], counts


def test_the_header_says_what_follows(filled: apsw.Connection) -> None:
    (header, *lines), counts = export(filled)
    assert header == {
        "type": "export",
        "version": 1,
        "db_id": queries.read_meta(filled, "db_id"),
        "exported_at": "2026-01-01T00:00:00.000Z",
        "kinds": list(KINDS),
        "since": 0,
        "oldest_cursor": 0,
    }
    for kind in KINDS:
        assert counts[kind] == sum(line["type"] == kind for line in lines) > 0


def test_every_row_is_there_as_the_api_shows_it(filled: apsw.Connection) -> None:
    (_, *lines), _ = export(filled)
    stored = queries.stored_state(filled)
    for kind, table in (("channel", "channels"), ("topic", "topics"), ("message", "messages")):
        rows = {line.pop("id"): line for line in lines if line.get("type") == kind}
        expected = {key: {"type": kind, **row} for key, row in stored.table(table).items()}
        assert {key: {**row, "id": key} for key, row in rows.items()} == expected
    attachments = {line["id"]: line for line in lines if line["type"] == "attachment"}
    for (topic_id,) in filled.execute("SELECT id FROM topics").fetchall():
        for attachment in queries.list_attachments(filled, str(topic_id)):
            assert attachments[attachment.id]["value_json"] == attachment.value_json


def test_an_event_looks_as_on_the_feed(filled: apsw.Connection) -> None:
    (_, *lines), _ = export(filled, kinds=["event"])
    rows = queries.read_events(filled, after=0, until=10_000, limit=10_000)
    for line, row in zip(lines, rows, strict=True):
        frame = decode_server_frame(json.dumps(line))
        assert isinstance(frame, EventEnvelope)
        assert (frame.event_id, frame.name, frame.data) == (row.event_id, row.name, row.data_json)
        assert (frame.scope, frame.entity) == (row.scope, row.entity)


def test_kinds_and_a_cursor_choose_what_is_written(filled: apsw.Connection) -> None:
    (header, *lines), counts = export(filled, kinds={"event", "channel"}, since=50)
    assert header["kinds"] == ["channel", "event"]
    assert list(counts) == ["channel", "event"]
    assert next(line["event_id"] for line in lines if line["type"] == "event") == 51
    assert {line["type"] for line in lines} == {"channel", "event"}


def test_an_export_is_one_moment_written_line_by_line(filled: apsw.Connection, workspace: Workspace) -> None:
    """Each line is written before the next row is read; what is committed meanwhile is not in it."""
    newest = queries.latest_event_id(filled)
    history = History(filled, 12, ManualClock(START_MS + 10_000_000))
    lines: list[bytes] = []

    class Sink(io.BytesIO):
        def write(self, data: Any) -> int:
            lines.append(data)
            if len(lines) < 4:
                history.message("too late")
            return len(data)

    with open_reading(workspace) as reading:
        counts = export_jsonl(reading.connection, Sink(), now_ms=START_MS)
    assert counts["event"] == newest < queries.latest_event_id(filled)
    assert len(lines) == 1 + sum(counts.values())
    assert not any(b"too late" in line for line in lines)
