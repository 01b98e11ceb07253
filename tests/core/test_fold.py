"""The fold, rule by rule: what each event does to the state, and what makes a log contradict itself."""

from collections.abc import Mapping
from typing import Any

import pytest

from parley.core.fold import TABLES, Difference, FoldError, HubState, LoggedEvent, differences, fold

CHANNEL = {"id": "ch_1", "name": "general", "description": None, "created_at": "t1"}
TOPIC = {"id": "topic_1", "channel_id": "ch_1", "title": "one", "created_at": "t2", "updated_at": "t2"}
OTHER = {**TOPIC, "id": "topic_2", "title": "two"}
MESSAGE = {
    "id": "msg_1",
    "topic_id": "topic_1",
    "channel_id": "ch_1",
    "sender": "ann",
    "content_raw": "hello",
    "version": 1,
    "created_at": "t4",
    "edited_at": None,
    "deleted_at": None,
    "deleted_by": None,
    "reply_to": None,
}
ATTACHMENT = {
    "id": "att_1",
    "topic_id": "topic_1",
    "kind": "file",
    "key": None,
    "value_json": {"b": 1.0, "a": "é"},
    "dedupe_key": "k",
    "source_message_id": "msg_1",
    "created_at": "t5",
}
TASK = {
    "id": "task_1",
    "topic_id": "topic_1",
    "channel_id": "ch_1",
    "title": "one",
    "description": None,
    "status": "open",
    "created_by": "ann",
    "holder": None,
    "generation": 0,
    "lease_expires_at": None,
    "created_at": "t5",
    "updated_at": "t5",
    "claimed_at": None,
    "completed_at": None,
    "result": None,
}
LEASE = {
    "id": "lease_1",
    "holder": "ann",
    "patterns": ["src/**"],
    "mode": "exclusive",
    "reason": None,
    "generation": 1,
    "acquired_at": "t5",
    "expires_at": "t9",
    "released_at": None,
    "status": "active",
}
AGENT = {
    "name": "ann",
    "program": None,
    "model": None,
    "session": "s",
    "state": "active",
    "registered_at": "t5",
    "last_seen_at": "t6",
}
START: list[tuple[str, Mapping[str, Any]]] = [
    ("channel.created", {"channel": CHANNEL}),
    ("topic.created", {"topic": TOPIC}),
    ("topic.created", {"topic": OTHER}),
    ("message.created", {"message": MESSAGE}),
]


def log(*events: tuple[str, Mapping[str, Any]]) -> list[LoggedEvent]:
    return [LoggedEvent(number, f"t{number}", name, data) for number, (name, data) in enumerate(events, 1)]


def folded(*events: tuple[str, Mapping[str, Any]]) -> HubState:
    return fold(log(*START, *events))


def test_creation_gives_the_rows_of_the_payloads() -> None:
    state = folded()
    assert state.channels == {"ch_1": CHANNEL}
    assert state.topics == {"topic_1": {**TOPIC, "updated_at": "t4"}, "topic_2": OTHER}
    assert state.messages == {"msg_1": MESSAGE}
    assert state.last_event_id == 4


def test_a_rename_changes_title_and_time() -> None:
    renamed = {"topic_id": "topic_1", "old_title": "one", "new_title": "uno"}
    topic = folded(("topic.renamed", renamed)).topics["topic_1"]
    assert (topic["title"], topic["updated_at"]) == ("uno", "t5")


def test_an_edit_changes_content_version_and_time() -> None:
    edited = {"message_id": "msg_1", "old_content": "hello", "new_content": "bye", "version": 2}
    state = folded(("message.edited", edited))
    assert state.messages["msg_1"] == {**MESSAGE, "content_raw": "bye", "version": 2, "edited_at": "t5"}
    assert state.topics["topic_1"]["updated_at"] == "t4"


def test_a_delete_leaves_a_tombstone() -> None:
    deleted = {"message_id": "msg_1", "deleted_by": "bob", "version": 2}
    assert folded(("message.deleted", deleted)).messages["msg_1"] == {
        **MESSAGE,
        "content_raw": "[deleted]",
        "version": 2,
        "edited_at": "t5",
        "deleted_at": "t5",
        "deleted_by": "bob",
    }


def moved(**changes: Any) -> tuple[str, Mapping[str, Any]]:
    data = {"message_id": "msg_1", "old_topic_id": "topic_1", "new_topic_id": "topic_2", "channel_id": "ch_1"}
    return "message.moved_topic", {**data, "mode": "one", "version": 2, **changes}


def test_a_move_changes_the_message_and_both_topics() -> None:
    state = folded(moved())
    assert state.messages["msg_1"] == {**MESSAGE, "topic_id": "topic_2", "version": 2}
    assert [state.topics[each]["updated_at"] for each in ("topic_1", "topic_2")] == ["t5", "t5"]


def test_an_attachment_keeps_its_metadata_as_canonical_text() -> None:
    state = folded(("topic.attachment_added", {"attachment": ATTACHMENT}))
    assert state.topic_attachments["att_1"] == {**ATTACHMENT, "value_json": '{"a":"é","b":1}'}


def enriched(plugin: str, *ids: str) -> tuple[str, Mapping[str, Any]]:
    found = [{"kind": "link", "span": {"start": 0, "end": 3}, "data": {"n": 1.0}} for _ in ids]
    data = {"message_id": "msg_1", "plugin_name": plugin, "enrichments": found, "enrichment_ids": list(ids)}
    return "message.enriched", data


def test_findings_replace_those_of_the_same_plugin_only() -> None:
    state = folded(enriched("links", "e1", "e2"), enriched("names", "e3"), enriched("links", "e4"))
    assert set(state.enrichments) == {"e3", "e4"}
    assert state.enrichments["e4"] == {
        "id": "e4",
        "message_id": "msg_1",
        "plugin_name": "links",
        "kind": "link",
        "span_start": 0,
        "span_end": 3,
        "data_json": '{"n":1}',
        "created_at": "t7",
        "outdated": 0,
    }


def test_an_empty_set_of_findings_removes_the_earlier_ones() -> None:
    state = folded(enriched("links", "e1"), enriched("links"))
    assert state.enrichments == {}
    assert state.enrichments_of == {"msg_1": []}


def test_an_archive_takes_untouched_messages_with_what_belongs_to_them() -> None:
    second = ("message.created", {"message": {**MESSAGE, "id": "msg_2"}})
    edited = ("message.edited", {"message_id": "msg_2", "old_content": "hello", "new_content": "x", "version": 2})
    archived = {"archive": "a", "sha256": "0", "up_to_event_id": 7, "events": 7, "messages": 1}
    state = folded(
        enriched("links", "e1"),
        ("topic.attachment_added", {"attachment": ATTACHMENT}),
        second,
        edited,
        ("workspace.archived", archived),
    )
    assert set(state.messages) == {"msg_2"}
    assert state.enrichments == {}
    assert state.topic_attachments["att_1"]["source_message_id"] is None
    assert state.last_touched == {"msg_2": 8}


def test_events_that_change_no_table_are_passed_over() -> None:
    events = log(*START, ("schema.migrated", {"from_version": 1, "to_version": 2}), ("from.the_future", {"x": 1}))
    state = fold(events)
    assert state.last_event_id == 6
    assert differences(state, folded()) == []


def test_a_fold_can_go_on_from_a_state() -> None:
    events = log(*START)
    assert differences(fold(events[2:], fold(events[:2])), fold(events)) == []


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (("topic.created", {"topic": {**TOPIC, "id": "topic_3", "channel_id": "ch_9"}}), "refers to unknown 'ch_9'"),
        (("topic.renamed", {"topic_id": "topic_9", "old_title": "", "new_title": ""}), "refers to unknown 'topic_9'"),
        (
            ("message.created", {"message": {**MESSAGE, "id": "msg_2", "topic_id": "topic_9"}}),
            "refers to unknown 'topic_9'",
        ),
        (("message.deleted", {"message_id": "msg_9", "deleted_by": "a", "version": 2}), "refers to unknown 'msg_9'"),
        (("topic.attachment_added", {"attachment": {**ATTACHMENT, "topic_id": "no"}}), "refers to unknown 'no'"),
        (("message.enriched", {"message_id": "msg_9", "plugin_name": "p"}), "refers to unknown 'msg_9'"),
        (
            ("message.edited", {"message_id": "msg_1", "new_content": "x", "version": 3}),
            "takes msg_1 from version 1 to 3",
        ),
        (moved(old_topic_id="topic_2", new_topic_id="topic_1"), "moves msg_1 out of a topic it is not in"),
        (moved(new_topic_id="topic_9"), "refers to unknown 'topic_9'"),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(event: tuple[str, Mapping[str, Any]], message: str) -> None:
    with pytest.raises(FoldError, match=message):
        folded(event)


@pytest.mark.parametrize("event_id", [0, 3, 4])
def test_events_out_of_order_are_refused(event_id: int) -> None:
    late = LoggedEvent(event_id, "t", "channel.created", {"channel": {**CHANNEL, "id": "ch_2"}})
    with pytest.raises(FoldError, match=f"event {event_id} comes after 4"):
        fold([*log(*START), late])


def test_differences_name_the_table_the_row_and_the_column() -> None:
    left, right = folded(), folded()
    right.messages["msg_1"]["content_raw"] = "tampered"
    del right.topics["topic_2"]
    right.channels["ch_2"] = {**CHANNEL, "id": "ch_2"}
    assert differences(left, right) == [
        Difference("channels", "ch_2", "", None, {**CHANNEL, "id": "ch_2"}),
        Difference("topics", "topic_2", "", OTHER, None),
        Difference("messages", "msg_1", "content_raw", "hello", "tampered"),
    ]


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table, columns in TABLES.items() for column in columns]
)
def test_no_column_escapes_the_comparison(table: str, column: str) -> None:
    everything = (
        ("topic.attachment_added", {"attachment": ATTACHMENT}),
        enriched("links", "e1"),
        ("task.created", {"task": TASK}),
        ("lease.acquired", {"lease": LEASE}),
        ("agent.registered", {"agent": AGENT}),
    )
    state, other = folded(*everything), folded(*everything)
    row_id = sorted(other.table(table))[0]
    other.table(table)[row_id][column] = "something else"
    assert [(each.table, each.column) for each in differences(state, other)] == [(table, column)]


def test_the_last_event_of_a_task_is_its_row_but_for_the_end_of_the_claim() -> None:
    claimed = {**TASK, "status": "claimed", "holder": "bob", "generation": 1, "lease_expires_at": "t9"}
    state = folded(("task.created", {"task": TASK}), ("task.claimed", {"task": claimed, "actor": "bob"}))
    assert state.tasks["task_1"] == {name: value for name, value in claimed.items() if name != "lease_expires_at"}


@pytest.mark.parametrize(
    ("name", "generation"), [("task.claimed", 0), ("task.claimed", 2), ("task.taken_over", 0), ("task.released", 1)]
)
def test_a_task_is_taken_at_the_next_generation_and_at_no_other(name: str, generation: int) -> None:
    with pytest.raises(FoldError, match="from generation 0"):
        folded(("task.created", {"task": TASK}), (name, {"task": {**TASK, "generation": generation}}))


def test_leases_have_generations_that_only_grow() -> None:
    with pytest.raises(FoldError, match="generation 1 after 1"):
        folded(("lease.acquired", {"lease": LEASE}), ("lease.acquired", {"lease": {**LEASE, "id": "lease_2"}}))


def test_a_lease_ends_at_the_generation_that_it_was_given() -> None:
    with pytest.raises(FoldError, match="ends lease_1 of generation 1 at 2"):
        folded(("lease.acquired", {"lease": LEASE}), ("lease.released", {"lease": {**LEASE, "generation": 2}}))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("channel.created", {"channel": CHANNEL}),
        ("topic.created", {"topic": TOPIC}),
        ("message.created", {"message": MESSAGE}),
        ("topic.attachment_added", {"attachment": ATTACHMENT}),
        ("task.created", {"task": TASK}),
        ("agent.registered", {"agent": AGENT}),
    ],
)
def test_nothing_is_created_twice(name: str, data: Mapping[str, Any]) -> None:
    once = () if (name, data) in START else ((name, data),)
    assert folded(*once).last_event_id == len(START) + len(once)
    with pytest.raises(FoldError, match="a second time"):
        folded(*once, (name, data))


def test_a_lease_that_ends_keeps_its_row() -> None:
    released = {**LEASE, "status": "released", "released_at": "t6"}
    state = folded(("lease.acquired", {"lease": LEASE}), ("lease.released", {"lease": released}))
    assert state.leases["lease_1"]["status"] == "released"
    assert state.leases["lease_1"]["patterns"] == '["src/**"]'


def test_an_agent_is_what_its_last_event_says_but_for_when_it_was_seen() -> None:
    gone = {**AGENT, "state": "gone"}
    state = folded(("agent.registered", {"agent": AGENT}), ("agent.swept", {"agent": gone}))
    assert state.agents == {"ann": {name: value for name, value in gone.items() if name != "last_seen_at"}}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("task.claimed", {"task": TASK}),
        ("lease.released", {"lease": LEASE}),
        ("agent.changed", {"agent": AGENT}),
        ("task.created", {"task": {**TASK, "topic_id": "topic_9"}}),
    ],
)
def test_what_never_came_to_be_cannot_change(name: str, data: Mapping[str, Any]) -> None:
    with pytest.raises(FoldError, match="refers to unknown"):
        folded((name, data))
