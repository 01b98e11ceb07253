"""Reading channels, topics, messages and attachments: order, pages, and that an index serves each of them."""

import random
from typing import Any

import apsw
import pytest

from parley.core.errors import InvalidInput, NotFound
from parley.workspace import queries
from parley.workspace.queries import derived, entities, events
from tests.workspace.databases import START_MS, add_channel, add_event, add_message, add_topic, dump


@pytest.fixture
def filled(connection: apsw.Connection) -> apsw.Connection:
    """Two topics in one channel; ids in an order that is not the order of creation."""
    add_channel(connection)
    add_topic(connection, "topic_1")
    add_topic(connection, "topic_2")
    numbers = list(range(20))
    random.Random(3).shuffle(numbers)
    for place, number in enumerate(numbers):
        add_message(connection, f"msg_{number:02d}", f"place {place}", topic_id=f"topic_{1 + place % 2}")
    return connection


def places(page: queries.Page) -> list[int]:
    return [int(message.content_raw.split()[1]) for message in page.messages]


def id_at(connection: apsw.Connection, place: int) -> str:
    return dump(connection, "SELECT id FROM messages WHERE seq = ?", (place + 1,))[0][0]


def test_the_newest_messages_come_first_in_order_of_creation(filled: apsw.Connection) -> None:
    page = queries.page_messages(filled, topic_id="topic_1", limit=4)
    assert places(page) == [18, 16, 14, 12]
    assert page.has_more
    assert places(queries.page_messages(filled, channel_id="ch_1", limit=50)) == list(range(19, -1, -1))


def test_a_page_before_a_message_ends_right_before_it(filled: apsw.Connection) -> None:
    page = queries.page_messages(filled, topic_id="topic_1", before_id=id_at(filled, 12), limit=3)
    assert places(page) == [10, 8, 6]
    assert page.has_more


def test_a_page_after_a_message_starts_right_after_it(filled: apsw.Connection) -> None:
    """Defect 6 of the study: the newest were returned instead, and those between were skipped."""
    page = queries.page_messages(filled, topic_id="topic_1", after_id=id_at(filled, 0), limit=2)
    assert places(page) == [4, 2]
    assert page.has_more


@pytest.mark.parametrize("scope", ["topic_id", "channel_id"])
def test_paging_in_either_direction_visits_every_message_once(filled: apsw.Connection, scope: str) -> None:
    where: dict[str, Any] = {scope: "topic_2" if scope == "topic_id" else "ch_1"}
    expected = sorted(places(queries.page_messages(filled, limit=100, **where)))
    backward: list[int] = []
    before_id = None
    while True:
        page = queries.page_messages(filled, before_id=before_id, limit=3, **where)
        backward += places(page)
        if not page.has_more:
            break
        before_id = page.messages[-1].id
    assert backward == expected[::-1]
    forward: list[int] = []
    after_id = backward_end = id_at(filled, expected[0])
    while True:
        page = queries.page_messages(filled, after_id=after_id, limit=3, **where)
        forward += places(page)[::-1]
        if not page.has_more:
            break
        after_id = page.messages[0].id
    assert backward_end != after_id
    assert forward == expected[1:]


def test_a_page_between_two_messages(filled: apsw.Connection) -> None:
    page = queries.page_messages(
        filled, channel_id="ch_1", after_id=id_at(filled, 3), before_id=id_at(filled, 7), limit=10
    )
    assert places(page) == [6, 5, 4]
    assert not page.has_more


def test_the_topic_wins_over_the_channel(filled: apsw.Connection) -> None:
    assert places(queries.page_messages(filled, topic_id="topic_1", channel_id="nope", limit=1)) == [18]


def test_an_unknown_topic_is_empty_and_an_unknown_anchor_is_not_found(filled: apsw.Connection) -> None:
    assert queries.page_messages(filled, topic_id="nope", limit=5) == queries.Page([], has_more=False)
    with pytest.raises(NotFound, match="msg_nope"):
        queries.page_messages(filled, topic_id="topic_1", limit=5, before_id="msg_nope")
    with pytest.raises(NotFound, match="msg_nope"):
        queries.page_messages(filled, topic_id="topic_1", limit=5, after_id="msg_nope")
    with pytest.raises(InvalidInput):
        queries.page_messages(filled, limit=5)


def test_a_message_has_all_its_columns(filled: apsw.Connection) -> None:
    filled.execute(
        "UPDATE messages SET version = 3, edited_at = 'e', deleted_at = 'd', deleted_by = 'x', reply_to = 'msg_01'"
        " WHERE id = 'msg_05'"
    )
    message = queries.get_message(filled, "msg_05")
    row = dump(filled, "SELECT * FROM messages WHERE id = 'msg_05'")[0][1:]
    assert message is not None
    assert tuple(getattr(message, field) for field in message.__struct_fields__) == row
    assert queries.get_message(filled, "nope") is None


def test_channels_are_found_by_id_and_by_name(connection: apsw.Connection) -> None:
    add_channel(connection, "ch_b", "zeta")
    add_channel(connection, "ch_a", "alpha")
    add_channel(connection, "ch_c", "ch_a")  # a name that is another channel's id
    assert [channel.name for channel in queries.list_channels(connection)] == ["alpha", "ch_a", "zeta"]
    found = [queries.find_channel(connection, text) for text in ("ch_b", "zeta", "ch_a", "nope")]
    assert [channel and channel.id for channel in found] == ["ch_b", "ch_b", "ch_a", None]
    assert queries.get_channel(connection, "zeta") is None


def test_topics_come_most_recently_changed_first_in_a_definite_order(connection: apsw.Connection) -> None:
    add_channel(connection)
    for number in range(7):
        add_topic(connection, f"topic_{number}", updated_ms=START_MS + number // 3)
    pages = [queries.list_topics(connection, "ch_1", limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [topic.id[-1] for topics, _ in pages for topic in topics] == ["6", "3", "4", "5", "0", "1", "2"]
    assert [has_more for _, has_more in pages] == [True, True, False]
    assert queries.get_topic(connection, "topic_4") is not None
    assert queries.get_topic(connection, "nope") is None


def test_attachments_come_newest_first_and_by_kind(connection: apsw.Connection) -> None:
    add_channel(connection)
    add_topic(connection)
    for number, kind in enumerate(("url", "file", "url")):
        connection.execute(
            "INSERT INTO topic_attachments VALUES (?, 'topic_1', ?, ?, '{\"n\":[1]}', ?, NULL, ?)",
            (f"att_{number}", kind, None if number else "k", f"d{number}", f"2026-01-0{number + 1}"),
        )
    found = queries.list_attachments(connection, "topic_1")
    assert [attachment.id for attachment in found] == ["att_2", "att_1", "att_0"]
    assert found[0].value_json == {"n": [1]}
    assert [each.id for each in queries.list_attachments(connection, "topic_1", "url")] == ["att_2", "att_0"]
    assert queries.get_attachment(connection, "att_1") == found[1]
    assert queries.get_attachment(connection, "nope") is None
    assert queries.find_attachment(connection, "topic_1", "url", "k", "d0") == found[2]
    assert queries.find_attachment(connection, "topic_1", "url", None, "d2") == found[0]
    assert queries.find_attachment(connection, "topic_1", "url", None, "d0") is None


def test_the_largest_ids_leave_out_what_is_not_of_their_kind(connection: apsw.Connection) -> None:
    add_channel(connection)
    add_topic(connection)
    for message_id in ("msg_b", "msg_a", "zzz"):
        add_message(connection, message_id)
    assert queries.largest_ids(connection) == {"ch_": "ch_1", "topic_": "topic_1", "msg_": "msg_b"}


def plan(connection: apsw.Connection, statement: str) -> list[str]:
    return [row[3] for row in dump(connection, f"EXPLAIN QUERY PLAN {statement}", (1,) * statement.count("?"))]


PAGING = {
    **{f"page {scope} {side}": statement for (scope, side), statement in entities._PAGE.items()},
    "topics": entities._LIST_TOPICS,
    "changes of a message": derived._CHANGES,
    "message": entities._MESSAGE,
    "seq": entities._SEQ,
    "topic": entities._TOPIC,
    "channel": entities._CHANNEL_BY_ID,
    "channel by name": entities._CHANNELS_CALLED,
    "attachment by key": entities._ATTACHMENT_BY_KEY,
    **{f"events {scope} {columns[:20]}": statement for (columns, scope), statement in events._SELECT.items()},
    **{f"newest events {scope}": statement for scope, statement in events._SELECT_TAIL.items()},
    "latest event": events._LATEST,
    **{f"largest {prefix}": statement for prefix, statement in entities._LARGEST.items()},
}


@pytest.mark.parametrize("name", PAGING)
def test_paging_and_replay_are_served_by_an_index_and_never_sort(connection: apsw.Connection, name: str) -> None:
    steps = plan(connection, PAGING[name])
    assert steps
    for step in steps:
        assert step.startswith(("SEARCH", "CORRELATED SCALAR SUBQUERY", "MULTI-INDEX OR", "INDEX ")), step


def test_the_check_of_plans_would_notice_a_sort(connection: apsw.Connection) -> None:
    assert any("TEMP B-TREE" in step for step in plan(connection, "SELECT id FROM messages ORDER BY sender"))


def test_reading_events_by_range_and_limit(connection: apsw.Connection) -> None:
    for _ in range(5):
        add_event(connection, channel="ch_1", topic="t1")
    found = queries.read_events(connection, after=1, until=4, limit=2)
    assert [event.event_id for event in found] == [2, 3]
    assert [event.event_id for event in queries.read_events(connection, after=3, until=4, limit=9)] == [4]
    assert queries.latest_event_id(connection) == 5


def test_filtered_events_are_merged_in_order_and_each_comes_once(connection: apsw.Connection) -> None:
    rng = random.Random(5)
    for _ in range(300):
        topic = rng.choice(["t1", "t2", "t3", None])
        add_event(connection, channel=rng.choice(["a", "b", "c"]), topic=topic, topic2=rng.choice(["t1", "t4", None]))
    rows = dump(connection, "SELECT event_id, scope_channel_id, scope_topic_id, scope_topic_id2 FROM events")
    for channels, topics in ((["a"], None), (None, ["t1"]), (["a", "a"], ["t1", "t4", "t1"]), ([], ["t2"]), ([], [])):
        wanted, named = set(channels or ()), set(topics or ())
        expected = [row[0] for row in rows if row[1] in wanted or row[2] in named or row[3] in named]
        newest = queries.tail_events(connection, until=290, limit=7, channels=channels, topics=topics)
        assert [event.event_id for event in newest] == [event_id for event_id in expected if event_id <= 290][-7:]
        got: list[int] = []
        cursor = 0
        while True:
            page = queries.read_events(connection, after=cursor, until=290, limit=7, channels=channels, topics=topics)
            got += [event.event_id for event in page]
            if len(page) < 7:
                break
            cursor = got[-1]
        assert got == [event_id for event_id in expected if event_id <= 290]


def test_the_newest_archive_ends_what_can_be_resumed(connection: apsw.Connection) -> None:
    assert queries.oldest_cursor(connection) is None
    for name, up_to in (("archive-9", 9), ("archive-20", 20)):
        connection.execute("INSERT INTO archives VALUES (?, 'x', ?, 2, 0, 't')", (name, up_to))
    assert queries.oldest_cursor(connection) == (20, "archive-20")


def test_an_event_keeps_its_payload_scope_and_entity(connection: apsw.Connection) -> None:
    add_event(connection, "message.moved_topic", channel="c", topic="t", topic2="u", data='{"a": ["ü", null]}')
    (event,) = queries.read_events(connection, after=0, until=1, limit=1)
    assert event.data_json == {"a": ["ü", None]}
    assert (event.scope.channel_id, event.scope.topic_id, event.scope.topic_id2) == ("c", "t", "u")
    assert (event.entity.type, event.entity.id, event.name) == ("message", "msg_1", "message.moved_topic")
