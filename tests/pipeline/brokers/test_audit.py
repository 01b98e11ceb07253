"""The audit of brokers: clean on what brokers leave behind, and each kind of damage is found and named."""

import dataclasses
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pyarrow as pa
import pytest

from parley.broker.backup import back_up, restore
from parley.broker.policy import DEDUPE_DAYS_MIN
from parley.broker.rules.messages import redeliver
from parley.broker.rules.retention import sweep
from parley.core.clock import ManualClock, iso
from parley.core.exits import Exit
from parley.core.orphans import CHECKS as ORPHANS
from parley.pipeline.audit.brokers.checks import BROKER_CHECKS, PLACES
from parley.pipeline.audit.brokers.store_checks import KEPT_DAYS_MIN
from parley.pipeline.audit.findings import SHOWN, Finding
from parley.pipeline.audit.report import AuditReport
from parley.pipeline.audit.run import SUMMARY, audit
from parley.pipeline.brokers.bronze_messages import days, take_messages
from parley.pipeline.brokers.rows import read_rows
from parley.pipeline.brokers.stores import find_brokers
from parley.pipeline.lake import WHOLE, Lake, commit
from parley.pipeline.lake.catalogue.mesh import BROKER_MESSAGES
from parley.pipeline.lake.files import TableWriter
from tests.cli.conftest import Parley, parley
from tests.conformance.broker.circle import make_send
from tests.pipeline.brokers.damage import DAMAGES, RENUMBERED, Damage, plant
from tests.pipeline.brokers.worlds import World, opened_store, opened_world

__all__ = ["parley"]


def audited(world: World, lake: Lake | None = None) -> AuditReport:
    return audit(None, [], brokers=find_brokers([world.place]), lake=lake, clock=world.clock)


def wrong(report: AuditReport, status: str = "error") -> dict[str, tuple[Finding, ...]]:
    return {verdict.check.id: verdict.listed for verdict in report.verdicts if verdict.status == status}


def test_every_orphan_check_of_the_broker_is_one_of_the_audit() -> None:
    assert {f"broker.{name}" for name in ORPHANS} == PLACES.keys() <= BROKER_CHECKS.keys()
    assert KEPT_DAYS_MIN == DEDUPE_DAYS_MIN
    named = frozenset().union(*(damage.checks | damage.in_file for damage in (*DAMAGES, RENUMBERED)))
    assert PLACES.keys() <= named, "each is planted"


def test_a_broker_that_only_served_is_clean(world: World, lake: Lake) -> None:
    world.talk(9)
    without = audited(world)
    assert (without.damaged, wrong(without, "warn")) == (False, {})
    assert wrong(without, "unknown").keys() == {name for name in BROKER_CHECKS if name.startswith("bronze.")}
    take_messages(lake, find_brokers([world.place]))
    report = audited(world, lake)
    assert {verdict.status for verdict in report.verdicts} == {"ok"}
    assert len(report.verdicts) == len(BROKER_CHECKS)
    assert report.verdict == "clean: 1 broker, 10 messages, the tables agree"
    (told,) = report.summary()["brokers"]
    assert (told["meshes"], told["messages"], told["deliveries"]) == (2, 10, world.counts()["delivery_queue"])
    assert json.loads((lake.own / SUMMARY).read_bytes())["at"] == iso(world.clock.now_ms())


def test_a_broker_that_swept_was_asked_again_and_restored_is_clean(world: World, lake: Lake, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bak"
    policy = dataclasses.replace(world.policy, delivery_days=1, message_days=2, dedupe_days=10)
    world.store.policy = policy
    world.talk(9)
    take_messages(lake, find_brokers([world.place]))
    world.clock.advance(3 * 86_400)
    world.talk(5, "later")
    world.store.call(lambda tx: sweep(tx, policy, 4))
    world.store.call(lambda tx: redeliver(tx, world.cid.member_id))
    assert wrong(audited(world, lake)) == {}
    take_messages(lake, find_brokers([world.place]))
    back_up(world.place, copy, world.clock)
    world.talk(4, "lost")
    take_messages(lake, find_brokers([world.place]))
    world.store.close()
    restore(copy, world.place, world.clock, force=True)
    with opened_store(world.place, world.clock) as store:
        world.store, store.policy = store, policy
        world.talk(3, "after")
        assert wrong(audited(world, lake)) == {}
        take_messages(lake, find_brokers([world.place]))
        world.store.call(lambda tx: sweep(tx, policy, 100))
        world.clock.advance(11 * 86_400)
        world.store.call(lambda tx: sweep(tx, policy, 100))
        assert world.counts()["client_message_dedupe"] == 0
        report = audited(world, lake)
    assert (wrong(report), wrong(report, "warn")) == ({}, {})


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_each_kind_of_damage_is_found_and_named(world: World, damage: Damage) -> None:
    world.talk(9)
    assert not audited(world).damaged
    message_id = plant(world, damage)
    report = audited(world)
    found = wrong(report)
    expected = damage.checks | (frozenset() if world.place.startswith("postgresql") else damage.in_file)
    assert expected <= found.keys()
    assert report.damaged == bool(expected)
    for check in expected:
        assert all(finding.id and report.explain(finding) for finding in found[check])
        if damage.named:
            assert message_id in {finding.id for finding in found[check]}


def test_a_message_that_was_put_after_the_others_is_named_in_a_file(
    world: World,
) -> None:
    world.talk(9)
    if world.place.startswith("postgresql"):
        with pytest.raises(psycopg.errors.GeneratedAlways):
            plant(world, RENUMBERED)
        return
    message_id = plant(world, RENUMBERED)
    found = wrong(audited(world))
    assert [finding.id for finding in found["broker.order"]] == [message_id]
    assert "broker.gap" in found


def test_what_was_removed_with_all_its_traces_is_missed_by_the_lake(world: World, lake: Lake) -> None:
    world.talk(9)
    take_messages(lake, find_brokers([world.place]))
    by_name = {damage.name: damage for damage in DAMAGES}
    removed = {plant(world, by_name[name]) for name in by_name if name.endswith("removed with all its traces")}
    assert len(removed) == 2
    found = wrong(audited(world, lake))
    assert {finding.id for finding in found["bronze.mesh_unknown"]} == removed


def test_old_gaps_are_what_a_broker_forgot(world: World) -> None:
    """An id that was forgotten leaves a number that nothing knows any more."""
    world.talk(9)
    for damage in DAMAGES:
        if damage.name == "removed with all its traces":
            plant(world, damage)
    world.clock.advance((KEPT_DAYS_MIN + 1) * 86_400)
    assert not audited(world).damaged


def test_a_clock_that_was_set_back_is_a_note(world: World) -> None:
    world.talk(2)
    world.clock.advance(-3600)
    answer = world.accepted(world.ann, make_send("earlier"))
    report = audited(world)
    assert not report.damaged
    ((check, (finding,)),) = wrong(report, "warn").items()
    assert (check, finding.id) == ("broker.clock", answer.broker_message_id)


def test_what_was_removed_before_the_lake_had_it_is_a_note(world: World, lake: Lake) -> None:
    world.talk(3)
    policy = dataclasses.replace(world.policy, delivery_days=1, message_days=2)
    world.clock.advance(3 * 86_400)
    world.store.call(lambda tx: sweep(tx, policy, 100))
    world.accepted(world.ann, make_send("new"))
    take_messages(lake, find_brokers([world.place]))
    report = audited(world, lake)
    assert not report.damaged
    ((check, findings),) = wrong(report, "warn").items()
    assert (check, len(findings)) == ("bronze.mesh_pruned", 3)


def _changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows[:2], rows[2] | {"ref": "elsewhere"}, *rows[3:]]


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("bronze.mesh_missing", lambda rows: [*rows[:2], *rows[3:]]),
        ("bronze.mesh_twice", lambda rows: [*rows, rows[2]]),
        ("bronze.mesh_differs", _changed),
    ],
)
def test_a_lake_that_was_changed_is_not_the_history(
    world: World, lake: Lake, check: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    world.talk(9)
    take_messages(lake, find_brokers([world.place]))
    rows = sorted(read_rows(lake, BROKER_MESSAGES).to_pylist(), key=lambda row: row["history_id"])
    with TableWriter(lake, BROKER_MESSAGES) as writer:
        table = pa.Table.from_pylist(change(rows), schema=BROKER_MESSAGES.file_schema)
        for batch in table.append_column("day", days(table["accepted_ms"])).to_batches():
            writer.write(batch)
    commit(lake, BROKER_MESSAGES, writer.files, replace=WHOLE)
    found = wrong(audited(world, lake))
    assert found.keys() == {check}
    assert [finding.id for finding in found[check]] == [rows[2]["broker_message_id"]]


def test_many_findings_are_counted_and_the_first_are_listed(world: World) -> None:
    world.talk(3 * SHOWN)
    world.store.call(lambda tx: tx.run("DELETE FROM message"))
    report = audited(world)
    found = {verdict.check.id: (verdict.total, len(verdict.listed)) for verdict in report.verdicts}
    assert found["broker.history_without_body"] == (3 * SHOWN + 1, SHOWN)


def test_a_torn_file_is_said_to_be_one(clock: ManualClock, tmp_path: Path, lake: Lake) -> None:
    place = tmp_path / "broker.db"
    with opened_world(str(place), clock) as world:
        world.talk(9)
        take_messages(lake, find_brokers([world.place]))
    with closing(apsw.Connection(str(place))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'message'").fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    with place.open("r+b") as file:
        file.seek((int(str(root)) - 1) * int(str(size)))
        file.write(b"\xff" * int(str(size)))
    report = audited(world, lake)
    assert "broker.integrity" in wrong(report)


def test_the_command_ends_with_5_and_lists_the_damage(parley: Parley, world: World, tmp_path: Path) -> None:
    world.talk(9)
    place = ("--broker", world.place)
    clean = parley("pipeline", "audit", *place)
    assert (clean.code, "Clean: 1 broker, 10 messages" in clean.stdout) == (Exit.OK, True)
    assert "starting Spark" not in clean.stderr
    damage = next(damage for damage in DAMAGES if damage.name == "id removed")
    message_id = plant(world, damage)
    told = parley("pipeline", "audit", *place)
    assert told.code == Exit.DAMAGE
    assert f"message_history {message_id}" in told.stdout
    found = parley("pipeline", "audit", *place, "--json")
    assert (found.code, found.json["damaged"], found.json["hubs"]) == (Exit.DAMAGE, True, [])
    (check,) = [check for check in found.json["checks"] if check["verdict"] == "error"]
    assert (check["name"], [each["id"] for each in check["findings"]]) == ("broker.message_without_id", [message_id])
