"""A frame is the same text to the byte whether it was made at the write or read back from the log."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.core.events import EVENTS
from parley.core.ids import IdSource
from parley.hub.transaction import Tx
from parley.serve.websocket import frame_header, text_frame
from parley.sqlite import open_writer
from parley.wire.events import EventEnvelope
from parley.workspace.log import Draft
from parley.workspace.queries import read_frames
from tests.hub.feed.frames import TEXT, split_frames
from tests.hub.hubs import workspace_in
from tests.workspace.databases import START_MS, prepared

ODD = [
    "",
    "plain",
    'quotes " and \\ backslashes',
    "controls \x00 \x01 \b \f \n \r \t \x1f \x7f",
    "line separators \u2028 \u2029 and \u0085",
    "ümläut ß €",
    "emoji 👩‍👩‍👧 and 𝄞",
    "</script><!-- %s %d {} ",
    "\ufeff\ufffe\uffff",
]
texts = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
payloads = st.dictionaries(
    texts,
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), texts),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
        max_leaves=8,
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory):
    workspace = workspace_in(tmp_path_factory.mktemp("frames"))
    connection = open_writer(workspace.db, synchronous="normal")
    prepared(connection, workspace)
    connection.execute("BEGIN IMMEDIATE")
    yield Tx(connection, START_MS, IdSource())
    connection.execute("ROLLBACK")
    connection.close()


@settings(max_examples=120)
@given(name=st.sampled_from(sorted(EVENTS)), data=payloads, entity=texts, scope=texts)
def test_the_frame_of_each_kind_of_event_is_the_same_from_the_write_and_from_the_log(
    tx: Tx, name: str, data: dict, entity: str, scope: str
) -> None:
    scopes = {each: f"{scope} {each}" for each in EVENTS[name].scopes}
    event_id = tx.append(Draft(name, entity, data, **scopes))
    written = tx.events[-1].frame_text()
    ((read_id, read),) = read_frames(tx.db, after=event_id - 1, until=event_id, limit=1)
    assert read_id == event_id
    assert read == written
    envelope = msgspec.json.decode(written, type=EventEnvelope)
    assert (envelope.event_id, envelope.name, envelope.entity.id) == (event_id, name, entity)
    assert envelope.entity.type == EVENTS[name].entity
    assert msgspec.to_builtins(envelope.scope) == {
        each: scopes.get(each) for each in ("channel_id", "topic_id", "topic_id2")
    }


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 100_000])
def test_a_frame_has_the_shortest_header_for_its_length(length: int) -> None:
    (received,) = split_frames(text_frame(b"a" * length))
    assert received == (TEXT, b"a" * length)
    assert len(frame_header(length)) == (2 if length < 126 else 4 if length < 65_536 else 10)


def test_a_stored_payload_with_spaces_and_escapes_of_its_own_is_replayed_as_it_is(tmp_path: Path) -> None:
    """An adopted log was written by another program; its payloads are not rewritten."""
    workspace = workspace_in(tmp_path)
    connection = open_writer(workspace.db)
    prepared(connection, workspace)
    connection.execute(
        "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES (?, ?, ?, ?, ?)",
        ("2026-01-01T00:00:00.000Z", "plugin.failed", "plugin", "p", '{ "a" : "\\u00e9", "n": 1.0 }'),
    )
    ((_, text),) = read_frames(connection, after=0, until=9, limit=9)
    connection.close()
    assert b'"data":{ "a" : "\\u00e9", "n": 1.0 }}' in text
    assert msgspec.json.decode(text, type=EventEnvelope).data == {"a": "é", "n": 1.0}
