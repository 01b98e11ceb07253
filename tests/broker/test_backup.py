"""Backup, restore and check, from either store into either."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import apsw
import pytest

from parley.app.broker import back_up as back_up_command
from parley.broker.backup import TABLES, back_up, check, restore
from parley.broker.lifecycle import locked
from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.rules.audit import record
from parley.broker.rules.topics import subscribe
from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.cli.root import run
from parley.core.clock import ManualClock
from parley.core.errors import DatabaseCorrupt, SchemaTooNew, ServiceUnavailable, StartupFailed, WriterLockHeld
from parley.core.exits import Exit
from tests.conformance.broker.circle import Circle, key, make_send
from tests.conformance.broker.rostered import Rostered
from tests.mesh_fixtures import FOLDER
from tests.postgres import Server
from tests.workspace.databases import run_script

NewPlace = Callable[[str], str]


@pytest.fixture
def new_place(tmp_path: Path, request: pytest.FixtureRequest) -> NewPlace:
    """The address of an empty store of a kind."""
    numbers = count()

    def place(kind: str) -> str:
        if kind == "postgresql":
            server: Server = request.getfixturevalue("postgresql")
            return server.new_url()
        return str(tmp_path / f"place{next(numbers)}" / "broker.db")

    return place


@contextmanager
def opened(place: str, clock: ManualClock) -> Iterator[BrokerStore]:
    with ExitStack() as held:
        if place.startswith("postgresql"):
            yield held.enter_context(closing(PostgresqlStore(place, clock)))
        else:
            Path(place).parent.mkdir(exist_ok=True)
            yield held.enter_context(closing(open_sqlite_store(Path(place), clock, synchronous="normal")))


def fill(store: BrokerStore, clock: ManualClock) -> Circle:
    circle = Circle(store, clock)
    circle.store.call(lambda tx: subscribe(tx, circle.mesh_id, circle.ann.member_id, "deploy"))
    circle.accepted(circle.ann, make_send("c1", "queue", "*", body=b"\x00\xff", mentions=[key("bob")]))
    circle.accepted(circle.ann, make_send("c2", meta={"é": 1}))
    circle.acknowledge(circle.cid, *circle.claim(circle.cid))
    circle.claim(circle.bob)
    circle.store.call(lambda tx: record(tx, circle.mesh_id, "test", "ann", a=1))
    return circle


def everything(store: BrokerStore) -> dict[str, list[str]]:
    """All rows, apart from the epoch and from leases."""
    found: dict[str, list[str]] = {}
    for table in TABLES:
        columns = "mesh_id, recipient_id, broker_message_id, status" if table == "delivery_queue" else "*"
        rows = store.call(lambda tx, table=table, columns=columns: tx.all(f"SELECT {columns} FROM {table}"))
        found[table] = sorted(repr(row) for row in rows if row[0] != "epoch")
    return found


@pytest.mark.parametrize("target_kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("source_kind", ["sqlite", "postgresql"])
def test_a_backup_of_either_store_is_restored_into_either(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path, source_kind: str, target_kind: str
) -> None:
    source, target, copy = new_place(source_kind), new_place(target_kind), tmp_path / "copy.bak"
    with opened(source, clock) as store:
        fill(store, clock)
        before = everything(store)
        back_up(source, copy, clock)
        assert store.epoch == 1
    assert restore(copy, target, clock, force=False) == 2
    assert check(target, clock).sound
    with opened(target, clock) as store:
        assert everything(store) == before
        assert store.epoch == 2
        circle = Circle.__new__(Circle)
        circle.store, circle.clock = store, clock
        (mesh_id,) = next(iter(circle.rows("SELECT mesh_id FROM mesh WHERE slug = 'red'")))
        circle.mesh_id = mesh_id
        circle.ann, circle.bob = circle.join("ann"), circle.join("bob")
        again = circle.accepted(circle.ann, make_send("c2", meta={"é": 1}))
        assert again.duplicate, "a retry from before the backup is still recognised"
        assert circle.accepted(circle.ann, make_send("c3")).history_id > again.history_id
        assert [push.message.client_message_id for push in circle.claim(circle.bob)] == ["c1", "c2", "c3"]


@pytest.mark.parametrize("target_kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("source_kind", ["sqlite", "postgresql"])
def test_a_roster_is_restored_whole_with_the_brokers_key_and_waits_for_an_owner(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path, source_kind: str, target_kind: str
) -> None:
    source, target, copy = new_place(source_kind), new_place(target_kind), tmp_path / "copy.bak"
    with opened(source, clock) as store:
        mesh = Rostered(store, clock)
        mesh.join("bob")
        before = everything(store)
        back_up(source, copy, clock)
        mesh.do("ada", "remove", mesh.town.of("bob"))
    assert restore(copy, target, clock, force=False) == 2
    assert check(target, clock).sound
    with opened(target, clock) as store:
        restored = {**everything(store), "roster": before["roster"]}
        assert restored == before
        mesh.store = store
        assert store.call(lambda tx: tx.one("SELECT n FROM roster_snapshot")) == (2,)
        assert mesh.members()["bob"] == ("member", "active")
        assert mesh.kept().restoring
        lost = {"after": 2, "entries": [mesh.town.log[3].decode()], "confirmed": mesh.town.state.head}
        assert mesh.call("ada", "roster_confirm", **lost).result["restoring"] is False
        assert mesh.members()["bob"] == ("member", "revoked")
    assert check(target, clock).sound


def test_a_roster_that_was_damaged_is_restored_as_it_was_and_found(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path
) -> None:
    source, target, copy = new_place("sqlite"), new_place("sqlite"), tmp_path / "copy.bak"
    with opened(source, clock) as store:
        mesh = Rostered(store, clock)
        mesh.join("bob")
        store.call(lambda tx: tx.run("DELETE FROM mesh_log WHERE n = 1"))
        back_up(source, copy, clock)
    assert restore(copy, target, clock, force=False) == 2
    assert check(target, clock).broken_rosters == {"red": 1}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_a_store_holds_is_replaced_only_by_force_and_the_epoch_goes_on(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path, kind: str
) -> None:
    place, copy = new_place(kind), tmp_path / "copy.bak"
    with opened(place, clock) as store:
        circle = fill(store, clock)
        back_up(place, copy, clock)
        circle.accepted(circle.ann, make_send("after the backup"))
    with pytest.raises(StartupFailed):
        restore(copy, place, clock, force=False)
    assert restore(copy, place, clock, force=True) == 2
    assert restore(copy, place, clock, force=True) == 3
    with opened(place, clock) as store:
        assert store.call(lambda tx: tx.one("SELECT count(*) FROM message")) == (2,)
    if kind == "sqlite":
        aside = [each for each in Path(place).parent.iterdir() if ".replaced-" in each.name]
        assert aside, "what was there is kept"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_backup_of_an_older_version_is_migrated_before_it_is_restored(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path, kind: str
) -> None:
    place, copy = new_place(kind), tmp_path / "old.bak"
    with closing(apsw.Connection(str(copy))) as old:
        run_script(old, (FOLDER / "broker-sqlite" / "v1.sql").read_text(encoding="utf-8"))
    before = copy.read_bytes()
    assert restore(copy, place, clock, force=False) == 2
    assert copy.read_bytes() == before
    for _ in range(2):  # it is opened by its version, and once more after that
        with opened(place, clock) as store:
            assert store.call(lambda tx: tx.one("SELECT count(*) FROM profile")) == (0,)
            assert store.call(lambda tx: tx.one("SELECT count(*) FROM message_history")) == (6,)


def test_a_backup_is_never_written_over_and_what_is_none_is_not_restored(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path
) -> None:
    place, copy = new_place("sqlite"), tmp_path / "copy.bak"
    with pytest.raises(ServiceUnavailable):
        back_up(place, copy, clock)
    with opened(place, clock):
        back_up(place, copy, clock)
    with pytest.raises(ServiceUnavailable):
        back_up(place, copy, clock)
    with pytest.raises(ServiceUnavailable):
        back_up("postgresql://parley@/none?host=/nonexistent", copy, clock)
    other = tmp_path / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(StartupFailed):
        restore(other, place, clock, force=True)
    other.write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseCorrupt):
        restore(other, place, clock, force=True)
    newer = apsw.Connection(str(copy))
    newer.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    newer.close()
    with pytest.raises(SchemaTooNew):
        restore(copy, place, clock, force=True)


def test_what_cannot_be_read_gives_way_to_a_backup_by_force_and_what_is_empty_at_once(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path
) -> None:
    place, copy = new_place("sqlite"), tmp_path / "copy.bak"
    with opened(place, clock) as store:
        fill(store, clock)
        back_up(place, copy, clock)
    for damage in (b"no database at all" * 100, b""):
        Path(place).write_bytes(damage)
        if damage:
            with pytest.raises(StartupFailed, match="cannot be read"):
                restore(copy, place, clock, force=False)
        assert restore(copy, place, clock, force=bool(damage)) == 2
        with opened(place, clock) as store:
            assert store.call(lambda tx: tx.one("SELECT count(*) FROM message")) == (2,)


def test_a_file_that_is_served_is_not_restored(new_place: NewPlace, clock: ManualClock, tmp_path: Path) -> None:
    place, copy = new_place("sqlite"), tmp_path / "copy.bak"
    with opened(place, clock):
        back_up(place, copy, clock)
        with locked(Path(place), "me", clock), pytest.raises(WriterLockHeld):
            restore(copy, place, clock, force=True)


def test_the_commands_say_what_they_did(
    new_place: NewPlace, clock: ManualClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, copy = new_place("sqlite"), tmp_path / "copy.bak"
    with opened(place, clock) as store:
        circle = fill(store, clock)
        assert run(["broker", "check", "--store", place, "--json"]) == Exit.OK
        assert json.loads(capsys.readouterr().out)["sound"] is True
        assert run(["broker", "backup", str(copy), "--store", place, "--json"]) == Exit.OK
        assert json.loads(capsys.readouterr().out)["bytes"] == copy.stat().st_size
        circle.store.call(lambda tx: tx.run("DELETE FROM message"))
        circle.store.call(lambda tx: tx.run("UPDATE audit SET actor = 'eve'"))
    assert run(["broker", "check", "--store", place, "--json"]) == Exit.DAMAGE
    found = json.loads(capsys.readouterr().out)
    assert {each["check"] for each in found["orphans"]} == {"id_without_message", "history_without_body"}
    assert found["broken_audits"] == {"red": 1}
    assert run(["broker", "check", "--store", place]) == Exit.DAMAGE
    assert "does not hold" in capsys.readouterr().out
    assert run(["broker", "restore", str(copy), "--store", place]) == Exit.ERROR
    assert run(["broker", "restore", str(copy), "--store", place, "--force"]) == Exit.OK
    assert "epoch 2" in capsys.readouterr().out
    assert run(["broker", "check", "--store", place]) == Exit.OK
    assert "All fits" in capsys.readouterr().out
    made = back_up_command(place, None, tmp_path / "again.bak")
    assert made["backup"] == str(tmp_path / "again.bak")
