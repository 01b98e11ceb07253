"""Search: with the index and without, whatever the user types."""

from typing import Any

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.core.errors import DatabaseCorrupt, InvalidInput
from parley.sqlite import integrity_check
from parley.workspace import queries
from parley.workspace.fts import ensure_fts, index_new
from parley.workspace.layout import Workspace
from tests.workspace.databases import add_channel, add_message, add_topic, dump, new_workspace, prepared, shape, writing

CONTENTS = {
    "msg_1": "the hub-lock is held",
    "msg_2": "rewrite it in c++ or c",
    "msg_3": "100% done_with it",
    "msg_4": "a deploy to staging",
    "msg_5": "deployment of the HUB",
}


@pytest.fixture(params=[True, False], ids=["fts", "like"])
def filled(request: pytest.FixtureRequest, connection: apsw.Connection) -> apsw.Connection:
    ensure_fts(connection, request.param)
    fill(connection)
    return connection


def fill(connection: apsw.Connection) -> None:
    add_channel(connection)
    add_topic(connection, "topic_1")
    add_topic(connection, "topic_2")
    for message_id, content in CONTENTS.items():
        add_message(connection, message_id, content, topic_id="topic_2" if message_id == "msg_5" else "topic_1")
    if queries.search(connection, "x", limit=1).fts_used:
        index_new(connection)


def found(connection: apsw.Connection, query: str, **options: Any) -> set[str]:
    return {message.id for message in queries.search(connection, query, limit=50, **options).messages}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("hub", {"msg_1", "msg_5"}),
        ("HUB held", {"msg_1"}),
        ("hub-lock", {"msg_1"}),
        ("c++", {"msg_2"}),
        ("%", {"msg_3"}),
        ("done_with", {"msg_3"}),
        ("++", {"msg_2"}),
        ("zebra", set()),
    ],
)
def test_words_are_found_with_the_index_and_without(filled: apsw.Connection, query: str, expected: set[str]) -> None:
    assert found(filled, query) == expected


@pytest.mark.parametrize("query", ["", "   ", "\0", "x" * 1001])
def test_a_query_without_a_word_or_too_long_is_refused(filled: apsw.Connection, query: str) -> None:
    with pytest.raises(InvalidInput, match="query must have 1 to 1000 characters"):
        found(filled, query)


def test_search_is_confined_to_a_channel_or_a_topic(filled: apsw.Connection) -> None:
    assert found(filled, "hub", channel_id="ch_1") == {"msg_1", "msg_5"}
    assert found(filled, "hub", topic_id="topic_2") == {"msg_5"}
    assert found(filled, "hub", topic_id="topic_2", channel_id="ch_1") == {"msg_5"}
    assert found(filled, "hub", topic_id="topic_2", channel_id="nope") == set()
    assert found(filled, "hub", channel_id="nope") == set()


def test_search_goes_on_where_the_last_page_ended(filled: apsw.Connection) -> None:
    first = queries.search(filled, "it", limit=1)
    second = queries.search(filled, "it", limit=1, offset=1)
    assert first.has_more
    assert not second.has_more
    assert {first.messages[0].id, second.messages[0].id} == {"msg_2", "msg_3"}


def test_valid_syntax_is_used_as_syntax(connection: apsw.Connection) -> None:
    fill(connection)
    assert found(connection, "deploy*") == {"msg_4", "msg_5"}
    assert found(connection, "deploy* NOT staging") == {"msg_5"}
    assert found(connection, '"hub lock"') == {"msg_1"}
    assert queries.search(connection, "deploy*", limit=5).fts_used


def test_the_answer_says_whether_the_index_was_used(filled: apsw.Connection) -> None:
    has_index = bool(dump(filled, "SELECT 1 FROM sqlite_schema WHERE name = 'messages_fts'"))
    assert queries.search(filled, "hub", limit=5).fts_used is has_index
    assert queries.search(filled, "++", limit=5).fts_used is False


def test_a_deleted_message_is_found_neither_by_its_old_content_nor_as_a_tombstone(filled: apsw.Connection) -> None:
    filled.execute("UPDATE messages SET content_raw = '[deleted]', deleted_at = 'now' WHERE id = 'msg_1'")
    assert found(filled, "held") == set()
    assert found(filled, "deleted") == set()


def test_an_edited_message_is_found_by_its_new_content_only(filled: apsw.Connection) -> None:
    filled.execute("UPDATE messages SET content_raw = 'a walrus' WHERE id = 'msg_1'")
    assert found(filled, "walrus") == {"msg_1"}
    assert found(filled, "held") == set()
    assert integrity_check(filled) == []


def test_no_query_that_has_a_word_is_an_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    workspace = new_workspace(tmp_path_factory.mktemp("search"))
    with writing(workspace) as connection:
        prepared(connection, workspace)
        fill(connection)

        @settings(max_examples=300)
        @given(st.text(st.sampled_from("ab\"'*^:-+(){}.,%_\\\0 \té&|~ANDORT"), max_size=12) | st.text(max_size=12))
        @example("\0a\0")
        def never_an_error(query: str) -> None:
            if query.replace("\0", " ").strip():
                queries.search(connection, query, limit=5)

        never_an_error()


def test_switching_the_index_on_later_finds_what_was_there(workspace: Workspace) -> None:
    """Defect 18 of the study: an index that was switched on later knew nothing old."""
    with writing(workspace) as connection:
        assert prepared(connection, workspace, fts=False).fts is False
        fill(connection)
        assert queries.search(connection, "held", limit=5).fts_used is False
        assert prepared(connection, workspace, fts=True).fts is True
        hits = queries.search(connection, "held", limit=5)
        assert hits.fts_used
        assert [message.id for message in hits.messages] == ["msg_1"]


def test_switching_the_index_off_leaves_no_trace(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace, fts=False)
        before = shape(connection)
        prepared(connection, workspace, fts=True)
        assert prepared(connection, workspace, fts=False).fts is False
        assert shape(connection) == before
        fill(connection)


def test_an_index_that_is_there_is_not_built_again(connection: apsw.Connection) -> None:
    fill(connection)
    (root,) = dump(connection, "SELECT rootpage FROM sqlite_schema WHERE name = 'messages_fts_data'")[0]
    assert ensure_fts(connection, True) is True
    assert dump(connection, "SELECT rootpage FROM sqlite_schema WHERE name = 'messages_fts_data'") == [(root,)]


def test_an_index_without_its_triggers_is_built_again(connection: apsw.Connection) -> None:
    fill(connection)
    connection.execute("DROP TRIGGER messages_fts_update")
    connection.execute("UPDATE messages SET content_raw = 'a walrus' WHERE id = 'msg_1'")
    assert ensure_fts(connection, True) is True
    assert found(connection, "walrus") == {"msg_1"}
    assert found(connection, "held") == set()


def test_messages_that_are_not_indexed_yet_can_be_changed_and_are_indexed_as_they_are(
    connection: apsw.Connection,
) -> None:
    fill(connection)
    add_message(connection, "msg_6", "a walrus")
    add_message(connection, "msg_7", "a dolphin")
    connection.execute("UPDATE messages SET content_raw = 'a narwhal' WHERE id = 'msg_6'")
    connection.execute("INSERT INTO meta VALUES ('archive_in_progress', '')")
    connection.execute("DELETE FROM messages WHERE id = 'msg_7'")
    assert found(connection, "narwhal") == set()
    index_new(connection)
    index_new(connection)
    assert found(connection, "narwhal") == {"msg_6"}
    assert found(connection, "walrus") == found(connection, "dolphin") == set()
    connection.execute("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")


def test_messages_that_were_not_indexed_are_caught_up_with_at_the_next_start(connection: apsw.Connection) -> None:
    fill(connection)
    add_message(connection, "msg_6", "a walrus")
    assert ensure_fts(connection, True) is True
    assert found(connection, "walrus") == {"msg_6"}


def test_a_failure_to_build_the_index_is_no_failure_to_start(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace, fts=False)
        fill(connection)
        connection.execute("CREATE TABLE messages_fts_data (in_the_way TEXT)")
        done = prepared(connection, workspace, fts=True)
        assert done.fts is False
        assert len(done.warnings) == 1
        assert found(connection, "held") == {"msg_1"}
        assert not connection.in_transaction


def test_damage_met_while_building_the_index_is_told(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace, fts=False)
        fill(connection)
        (root,) = dump(connection, "SELECT rootpage FROM sqlite_schema WHERE name = 'messages'")[0]
        (page_size,) = dump(connection, "PRAGMA page_size")[0]
    with workspace.db.open("r+b") as file:
        file.seek((root - 1) * page_size)
        file.write(b"\xff" * 200)
    with writing(workspace) as connection, pytest.raises(DatabaseCorrupt):
        ensure_fts(connection, True)
