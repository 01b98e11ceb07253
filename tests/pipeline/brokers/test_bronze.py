"""Brokers into the lake: each message once, whatever comes late, is killed, repeated, removed or restored."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from parley.broker.backup import back_up, restore
from parley.broker.rules.members import end_membership
from parley.broker.rules.messages import redeliver
from parley.broker.rules.retention import sweep
from parley.core.clock import ManualClock
from parley.core.pipeline_errors import LakeConflict
from parley.pipeline.brokers import bronze_deliveries, bronze_messages
from parley.pipeline.brokers.bronze_deliveries import observe_deliveries
from parley.pipeline.brokers.bronze_messages import take_messages
from parley.pipeline.brokers.members import take_members
from parley.pipeline.brokers.rows import read_rows
from parley.pipeline.brokers.silver import build_mesh_silver
from parley.pipeline.brokers.stores import BrokerRef, find_brokers
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.mesh import (
    BROKER_DELIVERIES,
    BROKER_MEMBERS,
    BROKER_MESSAGES,
    MESH_DELIVERIES,
    MESH_MESSAGES,
)
from parley.pipeline.lake.commit import exists, table_version
from parley.pipeline.lake.maintain import compact
from parley.pipeline.lake.tables import Table
from tests.conformance.broker.circle import make_send
from tests.pipeline.brokers.worlds import World, opened_store, opened_world
from tests.postgres import Server

_HISTORY = "SELECT mesh_id, history_id, broker_message_id FROM message_history ORDER BY mesh_id, history_id"


def brokers(world: World) -> list[BrokerRef]:
    return find_brokers([world.place])


def bronze(lake: Lake) -> list[tuple[Any, ...]]:
    rows = read_rows(lake, BROKER_MESSAGES, columns=["mesh_id", "history_id", "broker_message_id"])
    return sorted(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))


def content(lake: Lake, table: Table, without: Sequence[str] = ()) -> list[str]:
    names = [name for name in table.file_schema.names if name not in without]
    return sorted(map(repr, read_rows(lake, table, columns=names).to_pylist()))


def deliveries(lake: Lake) -> dict[int, dict[str, Any]]:
    return {row["delivery_id"]: row for row in read_rows(lake, MESH_DELIVERIES).to_pylist()}


def test_every_message_is_taken_once_however_often_it_is_asked_for(world: World, lake: Lake) -> None:
    world.talk(10)
    first = take_messages(lake, brokers(world), clock=world.clock)
    assert (first.messages, first.commits, first.problems) == (11, 1, [])
    assert take_messages(lake, brokers(world)).messages == 0
    world.talk(5, "d")
    again = take_messages(lake, brokers(world), round_numbers=2)
    assert again.messages == 6
    assert again.commits > 2
    assert bronze(lake) == world.rows(_HISTORY)
    last = dict(world.rows("SELECT mesh_id, max(history_id) FROM message_history GROUP BY mesh_id"))
    assert again.cursors == {world.store.broker_id: last}
    assert {row["source"] for row in read_rows(lake, BROKER_MESSAGES).to_pylist()} == {brokers(world)[0].source}


def test_two_runs_at_once_take_each_message_once(world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run commits while this one has written its files and is about to."""
    world.talk(10)
    commit, others = bronze_messages.commit, [take_messages]

    def commit_late(*args: Any, **how: Any) -> int:
        if others:
            assert others.pop()(lake, brokers(world)).messages == 11
        return commit(*args, **how)

    monkeypatch.setattr(bronze_messages, "commit", commit_late)
    report = take_messages(lake, brokers(world))
    assert (report.messages, report.conflicts) == (0, 1)
    assert bronze(lake) == world.rows(_HISTORY)
    folder = Path(lake.path(BROKER_MESSAGES))
    assert len([*folder.rglob("*.parquet")]) == 2, "what lost the race left no file behind"


def test_a_run_that_fails_before_its_commit_leaves_nothing(
    world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.talk(3)

    def fail(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bronze_messages, "commit", fail)
        with pytest.raises(KeyboardInterrupt):
            take_messages(lake, brokers(world))
    assert [*Path(lake.path(BROKER_MESSAGES)).rglob("*.parquet")] == []
    assert take_messages(lake, brokers(world)).messages == 4


def test_a_run_gives_up_when_others_always_win(world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    world.talk(1)

    def lose(*_: Any, **__: Any) -> int:
        raise LakeConflict("no")

    monkeypatch.setattr(bronze_messages, "commit", lose)
    with pytest.raises(LakeConflict):
        take_messages(lake, brokers(world))


def test_a_message_that_commits_late_is_not_passed_over(postgresql: Server, clock: ManualClock, lake: Lake) -> None:
    """Its number is below one that the lake has of another mesh by then."""
    url = postgresql.new_url()
    with opened_world(url, clock) as world, psycopg.connect(url) as early:
        early.execute("SELECT 1 FROM mesh WHERE mesh_id = %s FOR UPDATE", (world.mesh_id,))
        row = early.execute(
            "INSERT INTO message_history (mesh_id, broker_message_id, client_message_id, sender_id, sender_key,"
            " sender_name, kind, ref, priority, meta, body_bytes, recipients, accepted_ms)"
            " VALUES (%s, 'bm_early', 'c', %s, '', '', 'queue', '*', 'next', '{}', 0, 0, 0) RETURNING history_id",
            (world.mesh_id, world.ann.member_id),
        ).fetchone()
        late = world.accepted(world.eve, make_send("late", "queue", "*"))
        assert row is not None
        assert row[0] < late.history_id
        assert take_messages(lake, brokers(world)).messages == 1
        early.commit()
        assert take_messages(lake, brokers(world)).messages == 1
        assert bronze(lake) == world.rows(_HISTORY)
        assert "bm_early" in {message_id for _, _, message_id in bronze(lake)}


def test_what_a_broker_removes_stays_in_the_lake(world: World, lake: Lake) -> None:
    world.talk(4)
    take_messages(lake, brokers(world))
    observe_deliveries(lake, brokers(world), clock=world.clock)
    before = bronze(lake)
    policy = dataclasses.replace(world.policy, delivery_days=1, message_days=2)
    world.clock.advance(3 * 86_400)
    world.store.call(lambda tx: sweep(tx, policy, 100))
    assert world.counts()["message_history"] == 0
    report = take_messages(lake, brokers(world))
    assert (report.messages, report.problems) == (0, [])
    world.accepted(world.ann, make_send("new"))
    assert take_messages(lake, brokers(world)).messages == 1
    assert set(before) < set(bronze(lake))
    observe_deliveries(lake, brokers(world), clock=world.clock)
    build_mesh_silver(lake)
    rows = deliveries(lake)
    assert [row["gone"] for row in rows.values()].count(False) == 1
    assert {row["state"] for row in rows.values() if row["gone"]} == {"queued", "leased", "delivered"}


def test_a_restored_broker_goes_on_where_both_agree(world: World, lake: Lake, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bak"
    world.talk(4)
    back_up(world.place, copy, world.clock)
    world.talk(3, "lost")
    take_messages(lake, brokers(world))
    world.store.close()
    restore(copy, world.place, world.clock, force=True)
    (restored,) = brokers(world)
    assert restored.epoch == 2
    report = take_messages(lake, [restored])
    assert report.messages == 0
    assert [problem.count(" that the lake has are not in it") for problem in report.problems] == [1, 1]
    assert report.cursors[restored.broker_id] != {}
    assert take_messages(lake, [restored]).problems == [], "it is told once"


def test_numbers_that_a_restored_broker_gives_again_are_other_messages(
    world: World, lake: Lake, tmp_path: Path, clock: ManualClock
) -> None:
    copy = tmp_path / "copy.bak"
    world.talk(4)
    back_up(world.place, copy, clock)
    world.talk(3, "lost")
    take_messages(lake, brokers(world))
    observe_deliveries(lake, brokers(world), clock=clock)
    world.store.close()
    restore(copy, world.place, clock, force=True)
    with opened_store(world.place, clock) as store:
        world.store = store
        world.accepted(world.ann, make_send("another"))
        assert take_messages(lake, brokers(world)).messages == 1
        observe_deliveries(lake, brokers(world), clock=clock)
        build_mesh_silver(lake)
        rows = read_rows(lake, BROKER_MESSAGES).to_pylist()
        assert len(rows) == len({row["broker_message_id"] for row in rows}) == 5 + 4 + 1
        numbers = [row["history_id"] for row in rows]
        assert len(numbers) > len(set(numbers)), "a number stands for two messages, of two epochs"
        assert {row["client_message_id"] for row in rows if row["epoch"] == 2} == {"another"}
        there = {row["broker_message_id"] for row in read_rows(lake, MESH_DELIVERIES).to_pylist() if not row["gone"]}
        assert there == {message_id for (message_id,) in world.rows("SELECT broker_message_id FROM delivery_queue")}


def test_a_delivery_is_seen_when_it_changes_and_silver_has_what_was_seen_last(world: World, lake: Lake) -> None:
    world.talk(4)
    (broker,) = brokers(world)
    looked = observe_deliveries(lake, [broker], clock=world.clock)[broker.broker_id]
    assert (looked.changed, looked.observation) == (world.counts()["delivery_queue"], 1)
    assert observe_deliveries(lake, [broker])[broker.broker_id] == (0, 1)
    build_mesh_silver(lake)
    first = deliveries(lake)
    world.clock.advance(60)
    pushes = world.claim(world.bob, "bob again")
    world.acknowledge(world.bob, *pushes)
    looked = observe_deliveries(lake, [broker], clock=world.clock)[broker.broker_id]
    assert looked == (len(pushes), 2)
    built = build_mesh_silver(lake)
    assert built.buckets == 1
    after = deliveries(lake)
    assert after.keys() == first.keys()
    columns = "delivery_id, state, status, attempts, queued_ms, settled_ms"
    for number, state, status, attempts, queued_ms, settled_ms in world.rows(f"SELECT {columns} FROM delivery_queue"):
        row = after[number]
        assert (row["state"], row["status"], row["attempts"]) == (state, status, attempts)
        assert row["latency_ms"] == settled_ms - queued_ms
        assert row["settled_at"].timestamp() * 1000 == settled_ms
        assert row["first_seen_at"] == first[number]["first_seen_at"]
        assert (row["changed_seen_at"] > row["first_seen_at"]) == (number in {each.delivery_id for each in pushes})
    world.store.call(lambda tx: redeliver(tx, world.cid.member_id))
    observe_deliveries(lake, [broker], clock=world.clock)
    build_mesh_silver(lake)
    again = [row for row in deliveries(lake).values() if row["recipient_id"] == world.cid.member_id]
    assert {(row["state"], row["settled_at"], row["latency_ms"]) for row in again} == {("queued", None, None)}


def test_members_are_those_that_the_broker_has(world: World, lake: Lake) -> None:
    (broker,) = brokers(world)
    columns = ("mesh", "display_name", "role", "state")
    for _ in range(2):
        take_members(lake, [broker], clock=world.clock)
    assert table_version(lake, BROKER_MEMBERS) == 1, "what is as it was is not written again"
    world.join("dan")
    world.store.call(lambda tx: end_membership(tx, world.mesh_id, world.bob.member_id, "left"))
    take_members(lake, [broker], clock=world.clock)
    rows = read_rows(lake, BROKER_MEMBERS, columns=columns).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        ("blue", "eve", "owner", "active"),
        ("red", "ann", "owner", "active"),
        ("red", "bob", "member", "left"),
        ("red", "cid", "member", "active"),
        ("red", "dan", "member", "active"),
    ]


def test_two_looks_at_once_see_each_change_once(world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    world.talk(4)
    count = world.counts()["delivery_queue"]
    (broker,) = brokers(world)
    commit, others = bronze_deliveries.commit, [observe_deliveries]

    def commit_late(*args: Any, **how: Any) -> int:
        if others:
            assert others.pop()(lake, [broker])[broker.broker_id].changed == count
        return commit(*args, **how)

    monkeypatch.setattr(bronze_deliveries, "commit", commit_late)
    assert observe_deliveries(lake, [broker])[broker.broker_id] == (0, 1)
    assert read_rows(lake, BROKER_DELIVERIES).num_rows == count


def test_many_builds_leave_what_a_single_one_does(world: World, lake: Lake, tmp_path: Path) -> None:
    (broker,) = brokers(world)
    for number in range(4):
        world.talk(7, f"t{number}-")
        world.clock.advance(31)
        take_messages(lake, [broker], clock=world.clock)
        observe_deliveries(lake, [broker], clock=world.clock, bucket_size=10)
        built = build_mesh_silver(lake)
        assert built.tables["mesh_messages"] == 8
        if number == 2:
            compact(lake, BROKER_DELIVERIES)
            compact(lake, MESH_DELIVERIES)
    assert build_mesh_silver(lake).tables == {}
    whole = Lake.open_or_create(tmp_path / "whole")
    for table in (BROKER_MESSAGES, BROKER_DELIVERIES):
        Path(whole.path(table)).parent.mkdir(exist_ok=True)
        Path(whole.path(table)).symlink_to(lake.path(table))
    rebuilt = build_mesh_silver(whole)
    for table in (MESH_MESSAGES, MESH_DELIVERIES):
        assert content(whole, table) == content(lake, table)
        assert rebuilt.tables[table.name] == len(content(lake, table))
    fresh = Lake.open_or_create(tmp_path / "fresh")
    take_messages(fresh, [broker])
    observe_deliveries(fresh, [broker])
    build_mesh_silver(fresh)
    assert content(fresh, MESH_MESSAGES) == content(lake, MESH_MESSAGES)
    seen = ("first_seen_at", "changed_seen_at")
    assert content(fresh, MESH_DELIVERIES, seen) == content(lake, MESH_DELIVERIES, seen)


def test_a_lake_without_brokers_gets_no_tables_of_them(lake: Lake) -> None:
    assert build_mesh_silver(lake).tables == {}
    assert not exists(lake, MESH_MESSAGES)


def test_both_stores_lead_to_the_same_tables(
    postgresql: Server, clock: ManualClock, tmp_path: Path, lake: Lake
) -> None:
    """Restored from one backup into either store, at one epoch: but for the address, all that the lake has is equal."""
    copy = tmp_path / "copy.bak"
    with opened_world(str(tmp_path / "broker.db"), clock) as world:
        world.talk(20)
        back_up(world.place, copy, clock)
    lakes: list[Lake] = []
    for number, place in enumerate((str(tmp_path / "there" / "broker.db"), postgresql.new_url())):
        restore(copy, place, clock, force=False)
        made = Lake.open_or_create(tmp_path / f"lake-{number}")
        take_messages(made, find_brokers([place]), clock=clock)
        observe_deliveries(made, find_brokers([place]), clock=clock)
        build_mesh_silver(made)
        lakes.append(made)
    for table in (BROKER_MESSAGES, BROKER_DELIVERIES, MESH_MESSAGES, MESH_DELIVERIES):
        one, two = (content(made, table, ["source"]) for made in lakes)
        assert one == two
        assert len(one) >= 21
