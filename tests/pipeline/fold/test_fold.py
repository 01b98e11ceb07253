"""Spark's fold gives what the pure fold gives and what the hubs hold, and refuses what the pure fold refuses."""

import json
import random
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from parley.core.fold import TABLES, HubState, differences
from parley.pipeline.fold import (
    REASONS,
    Archive,
    Facts,
    accepted,
    current_tables,
    message_versions,
    moves,
    quarantined,
    read_facts,
    topic_titles,
)
from tests.pipeline.fold.logs import (
    BY_ITSELF,
    Event,
    damaged,
    frame,
    pure,
    random_log,
    refused_by_the_pure_fold,
    states,
)

pytestmark = pytest.mark.timeout(600)

SEEDS = st.integers(0, 2**32)
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""A smaller seed is no simpler history, and each try takes seconds."""
DISPUTED = (4, 5, 8, 9)
"""Damaged logs in which payloads hold members of other events, which Spark once believed."""


@settings(max_examples=1, phases=NO_SHRINKING)
@given(seed=SEEDS)
def test_random_histories_fold_to_what_the_hubs_hold_and_damaged_ones_as_if_refused_events_had_never_been(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """All hubs at once: it costs Spark nearly the same for one as for a few."""
    sound = {
        f"hub-{at}": random_log(tmp_path_factory.mktemp("hub"), f"hub-{at}", seed + at, 60, archives=at == 1)
        for at in range(3)
    }
    broken = {
        f"broken-{each}": damaged(
            random_log(tmp_path_factory.mktemp("hub"), f"broken-{each}", each, 60).events, random.Random(each), 12
        )
        for each in (*DISPUTED, seed, seed + 1)
    }
    logs = {db_id: log.events for db_id, log in sound.items()} | broken
    judged = judge(spark, [event for log in logs.values() for event in log])
    assert {archive.db_id for archive in judged.facts.archives} <= {"hub-1"}
    assert judged.facts.truncated == frozenset()
    assert set(judged.refused.values()) <= set(REASONS)
    for db_id, log in sound.items():
        assert judged.refused_of(db_id) == {}
        assert differences(judged.states[db_id], log.stored) == []
        assert differences(pure(log.events), log.stored) == []
    for db_id, log in broken.items():
        by_us = judged.refused_of(db_id)
        taken = [event for event in log if event.event_id not in by_us]
        assert differences(judged.states.get(db_id, HubState()), pure(taken)) == []
        alone = {event_id for event_id, reason in by_us.items() if reason in BY_ITSELF}
        assert refused_by_the_pure_fold([event for event in log if event.event_id not in alone]) == by_us.keys() - alone


class Judged(NamedTuple):
    """What Spark makes of events: the facts, what it refuses and why, and what the rest adds up to."""

    facts: Facts
    refused: dict[tuple[str, int], str]
    states: dict[str, HubState]
    messages: dict[str, list[tuple[str, int, int]]]
    """The messages of each hub, with the events that made them and changed them last."""

    def refused_of(self, db_id: str) -> dict[int, str]:
        return {event_id: reason for (hub, event_id), reason in self.refused.items() if hub == db_id}


def judge(spark: SparkSession, logged: list[Event]) -> Judged:
    events = frame(spark, logged)
    facts = read_facts(events)
    rows = quarantined(events, facts).cache()
    refused = {(row["db_id"], row["event_id"]): row["reason"] for row in rows.collect()}
    tables = current_tables(accepted(events, rows), facts)
    messages: dict[str, list[tuple[str, int, int]]] = {}
    tables["messages"] = tables["messages"].cache()
    for row in tables["messages"].collect():
        messages.setdefault(row["db_id"], []).append((row["id"], row["created_event_id"], row["last_event_id"]))
    judged = Judged(facts, refused, states(tables), messages)
    tables["messages"].unpersist()
    rows.unpersist()
    return judged


def hub(*events: tuple[str, str, str, object], db_id: str = "h", first: int = 1) -> list[Event]:
    """Events of ``name, entity type, entity id, payload``."""
    return [
        Event(db_id, number, f"t{number}", name, None, None, None, kind, entity, _text(data))
        for number, (name, kind, entity, data) in enumerate(events, first)
    ]


def _text(data: object) -> str:
    return data if isinstance(data, str) else json.dumps(data)


def topic(topic_id: str, channel: str = "c1") -> tuple[str, str, str, object]:
    row = {"id": topic_id, "channel_id": channel, "title": "one", "created_at": "t", "updated_at": "t"}
    return "topic.created", "topic", topic_id, {"topic": row}


def message(message_id: str, topic_id: str = "p1", **members: object) -> tuple[str, str, str, object]:
    row = {
        "id": message_id,
        "topic_id": topic_id,
        "channel_id": "c1",
        "sender": "ann",
        "content_raw": "x",
        "version": 1,
    }
    return "message.created", "message", message_id, {"message": {**row, "created_at": "t", **members}}


def change(what: str, message_id: str, version: object, **members: object) -> tuple[str, str, str, object]:
    return f"message.{what}", "message", message_id, {"message_id": message_id, "version": version, **members}


def about(name: str, row_id: str, **members: object) -> tuple[str, str, str, object]:
    entity = name.partition(".")[0]
    return name, entity, row_id, {entity: {"id": row_id, **members}}


CHANNEL = ("channel.created", "channel", "c1", {"channel": {"id": "c1", "name": "general", "created_at": "t"}})
FINDING = {"kind": "link", "span": {"start": 0, "end": 1}, "data": {"b": 1.0, "a": 1e2}}


ATTACHMENT = {"id": "a1", "topic_id": "p1", "kind": "url", "value_json": {}, "dedupe_key": "k", "created_at": "t"}
PLANTED: list[tuple[tuple[str, str, str, object], str | None]] = [
    (CHANNEL, None),
    (CHANNEL, "created_twice"),
    (topic("p1"), None),
    (topic("p2", "nowhere"), "unknown_channel"),
    (topic("p3"), None),
    (message("m1"), None),
    (message("m2", "p2"), "unknown_topic"),
    (change("edited", "m2", 2, new_content="y"), "unknown_message"),
    (change("edited", "m1", 3, new_content="y"), "version_jump"),
    (change("edited", "m1", 2, new_content="y", new_topic_id="nowhere", message={"version": 9}), None),
    (change("edited", "m1", 3, new_content=None), "malformed"),
    (change("edited", "m1", "3", new_content="y"), "malformed"),
    (change("moved_topic", "m1", 3, old_topic_id="p3", new_topic_id="p1"), "wrong_topic"),
    (change("moved_topic", "m1", 3, old_topic_id="p1", new_topic_id="p2"), "unknown_topic"),
    (change("moved_topic", "m1", 3, old_topic_id="p1", new_topic_id="p3"), None),
    (change("deleted", "m1", 4, deleted_by="bob"), None),
    (change("enriched", "m9", 4, plugin_name="p", enrichments=[], enrichment_ids=[]), "unknown_message"),
    (change("enriched", "m1", 4, plugin_name="p", enrichments=[FINDING], enrichment_ids=[]), "malformed"),
    (change("enriched", "m1", 4, plugin_name="p", enrichments=[{}], enrichment_ids=["e"]), "malformed"),
    (change("enriched", "m1", None, plugin_name="p", enrichments=[FINDING], enrichment_ids=["e"]), None),
    (("topic.renamed", "topic", "p2", {"topic_id": "p2", "new_title": "x"}), "unknown_topic"),
    (("topic.attachment_added", "attachment", "a1", {"attachment": ATTACHMENT}), None),
    (("topic.attachment_added", "attachment", "a1", {"attachment": ATTACHMENT}), "created_twice"),
    (("topic.attachment_added", "attachment", "a2", {"attachment": ATTACHMENT}), "wrong_entity"),
    (("topic.renamed", "message", "p1", {"topic_id": "p1", "new_title": "x"}), "wrong_entity"),
    (("message.created", "message", "m3", "not JSON"), "malformed"),
    (("schema.migrated", "workspace", "h", "{} {}"), None),
    (("schema.migrated", "workspace", "h", "{} and more"), "malformed"),
    (("from.the_future", "message", "m1", {}), "unknown_name"),
    (("workspace.archived", "workspace", "h", {"archive": "a"}), "malformed"),
    (about("task.created", "k1", topic_id="p1", generation=0), None),
    (about("task.created", "k2", topic_id="p2", generation=0), "unknown_topic"),
    (about("task.claimed", "k2", topic_id="p2", generation=1), "unknown_task"),
    (about("task.created", "k1", topic_id="p1", generation=0), "created_twice"),
    (("task.claimed", "task", "k1", {"task": {"id": "k1", "topic_id": "p1", "generation": 1}, "version": 7}), None),
    (about("task.released", "k1", topic_id="p1", generation=2), "generation_jump"),
    (about("task.released", "k1", topic_id="p1", generation=1), None),
    (about("lease.acquired", "l1", generation=4, patterns=["a"]), None),
    (about("lease.acquired", "l2", generation=3, patterns=["a"]), "generation_jump"),
    (about("lease.released", "l2", generation=3, patterns=["a"]), "unknown_lease"),
    (about("lease.released", "l1", generation=5, patterns=["a"]), "generation_jump"),
    (about("lease.released", "l1", generation=4, patterns=["a"]), None),
    (("agent.left", "agent", "ann", {"agent": {"name": "ann"}}), "unknown_agent"),
    (("agent.registered", "agent", "ann", {"agent": {"name": "ann"}}), None),
    (("agent.left", "agent", "ann", {"agent": {"name": "ann"}}), None),
]
"""Events of the hub ``h``, and for which reason each is refused."""
UNREADABLE = [
    CHANNEL,
    topic("p1"),
    message("m1"),
    ("workspace.archived", "workspace", "unreadable", '{"up_to_event_id": 3} and more'),
    change("edited", "m1", 2, new_content="y"),
]
NUMBERS = {"id": "a1", "topic_id": "p1", "kind": "n", "value_json": {"é": [1.0, None], "a": "\u0000😀"}}
CANONICAL = [
    CHANNEL,
    topic("p1"),
    message("m1"),
    change("enriched", "m1", 1, plugin_name="p", enrichments=[FINDING], enrichment_ids=["e1"]),
    ("topic.attachment_added", "attachment", "a1", {"attachment": NUMBERS}),
]
TRUNCATED = [
    ("workspace.archived", "workspace", "truncated", {"up_to_event_id": 10}),
    message("m1", "p-old"),
    change("edited", "m0", 2, new_content="x"),
]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    """The hubs above, judged and folded together."""
    return judge(
        spark,
        [
            *hub(*(event for event, _ in PLANTED)),
            *hub(*UNREADABLE, db_id="unreadable"),
            *hub(*CANONICAL, db_id="canonical"),
            *hub(*TRUNCATED, db_id="truncated", first=11),
        ],
    )


def test_each_refusal_has_its_reason(judged: Judged) -> None:
    found = judged.refused_of("h")
    assert found == {number: reason for number, (_, reason) in enumerate(PLANTED, 1) if reason is not None}
    assert set(found.values()) == set(REASONS)


def test_an_archive_that_cannot_be_read_takes_nothing(judged: Judged) -> None:
    assert [archive.db_id for archive in judged.facts.archives] == ["truncated"]
    assert judged.refused_of("unreadable") == {4: "malformed"}
    assert judged.messages["unreadable"] == [("m1", 3, 5)]


def test_json_columns_are_canonical_text_and_missing_members_are_null(judged: Judged) -> None:
    found = judged.states["canonical"]
    assert found.enrichments["e1"]["data_json"] == '{"a":100,"b":1}'
    assert found.topic_attachments["a1"]["value_json"] == '{"a":"\\u0000😀","é":[1,null]}'
    assert found.messages["m1"]["reply_to"] is None
    assert differences(found, pure(hub(*CANONICAL))) == []


def test_a_log_whose_beginning_went_to_an_archive_is_no_contradiction(judged: Judged) -> None:
    assert judged.facts == Facts((Archive("truncated", 11, 10),), frozenset({"truncated"}))
    assert judged.refused_of("truncated") == {13: "unknown_message"}
    assert judged.messages["truncated"] == [("m1", 12, 12)]


def test_history_keeps_every_version_title_and_move(spark: SparkSession) -> None:
    events = frame(
        spark,
        hub(
            CHANNEL,
            topic("p1"),
            topic("p2"),
            message("m1"),
            change("edited", "m1", 2, new_content="y", new_topic_id="p9", deleted_by="eve"),
            change("moved_topic", "m1", 3, old_topic_id="p1", new_topic_id="p2", mode="one", channel_id="c1"),
            change("deleted", "m1", 4, deleted_by="bob"),
            ("topic.renamed", "topic", "p1", {"topic_id": "p1", "new_title": "uno", "topic": {"title": "dos"}}),
        ),
    )
    columns = ("version", "change", "content_raw", "topic_id", "actor", "ts", "valid_from_event", "valid_to_event")
    assert [tuple(row) for row in message_versions(events).select(*columns).orderBy("version").collect()] == [
        (1, "created", "x", "p1", "ann", "t4", 4, 5),
        (2, "edited", "y", "p1", None, "t5", 5, 6),
        (3, "moved", "y", "p2", None, "t6", 6, 7),
        (4, "deleted", "[deleted]", "p2", "bob", "t7", 7, None),
    ]
    titles = topic_titles(events).where("id = 'p1'").select("title", "valid_from_event", "valid_to_event")
    assert [tuple(row) for row in titles.orderBy("valid_from_event").collect()] == [("one", 2, 8), ("uno", 8, None)]
    columns = ("event_id", "message_id", "old_topic_id", "new_topic_id", "mode", "version")
    assert [tuple(row) for row in moves(events).select(*columns).collect()] == [(6, "m1", "p1", "p2", "one", 3)]


def test_every_table_of_the_pure_fold_is_folded(spark: SparkSession) -> None:
    assert current_tables(frame(spark, []), Facts()).keys() == TABLES.keys()
