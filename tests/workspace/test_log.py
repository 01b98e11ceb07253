"""The one door to the log, and the two makers of a frame's text."""

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.core.errors import InternalError
from parley.core.events import EVENTS
from parley.workspace import queries
from parley.workspace.log import Draft, append_event, append_events
from tests.hub.histories import History
from tests.workspace.databases import START_MS


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_must_carry_exactly_its_scopes(connection: apsw.Connection, name: str) -> None:
    scopes = {scope: "x" if scope in EVENTS[name].scopes else None for scope in ("channel_id", "topic_id", "topic_id2")}
    stored = append_event(connection, "t", Draft(name, "e", {}, **scopes))
    (row,) = queries.read_events(connection, after=0, until=9, limit=9)
    assert (row.event_id, row.entity.type) == (stored.event_id, EVENTS[name].entity)
    for scope, value in scopes.items():
        wrong = {**scopes, scope: None if value else "x"}
        with pytest.raises(InternalError, match="must carry the scopes"):
            append_event(connection, "t", Draft(name, "e", {}, **wrong))
        with pytest.raises(InternalError):
            append_events(connection, "t", [Draft(name, "e", {}, **scopes), Draft(name, "e", {}, **wrong)])
    assert queries.latest_event_id(connection) == stored.event_id


def test_a_name_that_is_not_in_the_catalogue_is_refused(connection: apsw.Connection) -> None:
    with pytest.raises(InternalError, match=r"topic\.deleted is not in the event catalogue"):
        append_event(connection, "t", Draft("topic.deleted", "e", {}))


def test_events_appended_together_have_ids_that_follow_each_other(connection: apsw.Connection) -> None:
    append_event(connection, "t", Draft("plugin.failed", "p", {}))
    stored = append_events(connection, "t", [Draft("plugin.failed", str(n), {"n": n}) for n in range(4)])
    assert [event.event_id for event in stored] == [2, 3, 4, 5]
    rows = queries.read_events(connection, after=1, until=9, limit=9)
    assert [(row.event_id, row.entity.id) for row in rows] == [(n + 2, str(n)) for n in range(4)]
    assert append_events(connection, "t", []) == []


def test_sqlite_and_the_writer_make_the_same_frame(connection: apsw.Connection) -> None:
    """Replay takes its frames from the one, live delivery from the other; a reader must not be able to tell."""
    odd = Draft("plugin.failed", 'p"\\\u2028é', {"text": 'a "quoted"\n\\ \u0000\u007f 𝄞 % %s', "n": None})
    stored = [append_event(connection, "2026-01-01T00:00:00.000Z", odd)]
    scopes = {"channel_id": "c", "topic_id": "t", "topic_id2": "u"}
    stored.append(append_event(connection, "x", Draft("message.moved_topic", "m", {"a": [1.5]}, **scopes)))
    frames = queries.read_frames(connection, after=0, until=9, limit=9)
    assert list(frames) == [(event.event_id, event.frame_text()) for event in stored]


def test_frames_hold_what_the_rows_hold(connection: apsw.Connection) -> None:
    history = History(connection, 5, ManualClock(START_MS))
    history.message("first")
    history.run(60)
    (channel, *_) = queries.list_channels(connection)
    for channels in (None, [channel.id]):
        rows = queries.read_events(connection, after=3, until=50, limit=30, channels=channels)
        frames = queries.read_frames(connection, after=3, until=50, limit=30, channels=channels)
        assert [event_id for event_id, _ in frames] == [row.event_id for row in rows]
        assert rows
