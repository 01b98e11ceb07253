"""Reading brokers: both stores give the same rows, a live one is never held up, and no password goes anywhere."""

import pickle
import re
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

from parley.broker.backup import back_up, restore
from parley.core.clock import ManualClock
from parley.core.errors import InvalidInput, SchemaTooNew, ServiceUnavailable
from parley.core.pipeline_errors import BrokerInvalid, HubAmbiguous
from parley.pipeline.brokers import stores
from parley.pipeline.brokers.datasource import brokers_of
from parley.pipeline.brokers.ranges import MessageRange, pack, read_bounds, read_range, split, whole_history
from parley.pipeline.brokers.reading import open_store
from parley.pipeline.brokers.schema import DELIVERIES, MESSAGE_SCHEMA, STORED_DELIVERIES
from parley.pipeline.brokers.stores import BrokerRef, StoreAddress, address_of, find_brokers
from parley.sqlite import load_migrations
from tests.conformance.broker.circle import make_send
from tests.pipeline.brokers.worlds import World, opened_world
from tests.postgres import Server


def read_all(broker: BrokerRef, **how: int) -> pa.Table:
    batches = [batch for wanted in whole_history(broker) for batch in read_range(wanted, **how)]
    return pa.Table.from_batches(batches, schema=MESSAGE_SCHEMA)


def the_broker(world: World) -> BrokerRef:
    (broker,) = find_brokers([world.place])
    return broker


def test_a_history_is_read_whole_in_order_and_without_what_was_said(world: World) -> None:
    world.talk(7)
    broker = the_broker(world)
    rows = read_all(broker)
    columns = "history_id, mesh_id, broker_message_id, ref, reply_to, meta, body_bytes, recipients, accepted_ms"
    expected = world.rows(f"SELECT {columns} FROM message_history ORDER BY mesh_id, history_id")
    assert list(zip(*(rows[name].to_pylist() for name in columns.split(", ")), strict=True)) == expected
    assert len(expected) == 8
    assert set(rows["broker_id"].to_pylist()) == {world.store.broker_id}
    assert set(rows["epoch"].to_pylist()) == {1}
    fingerprints = world.rows("SELECT request_fingerprint FROM client_message_dedupe ORDER BY mesh_id, history_id")
    assert rows["request_fingerprint"].to_pylist() == [bytes(each) for (each,) in fingerprints]
    assert not any(b"sealed" in repr(row).encode() for row in rows.to_pylist())


def test_both_stores_give_the_same_batches(postgresql: Server, clock: ManualClock, tmp_path: Path) -> None:
    """A backup moves a broker from the file to the database; but for the epoch, both are then the same."""
    file, copy, url = tmp_path / "broker.db", tmp_path / "copy.bak", postgresql.new_url()
    with opened_world(str(file), clock) as world:
        world.talk(25)
        back_up(str(file), copy, clock)
    restore(copy, url, clock, force=False)
    restore(copy, str(tmp_path / "again" / "broker.db"), clock, force=False)
    one, two = (find_brokers([place])[0] for place in (str(tmp_path / "again" / "broker.db"), url))
    assert one.epoch == two.epoch == 2
    for rows in (1000, 4):
        in_file, in_database = (read_all(broker, batch_rows=rows) for broker in (one, two))
        assert in_file.equals(in_database, check_metadata=True)
        assert in_file.num_rows == 26
    deliveries = [delivery_rows(broker) for broker in (one, two)]
    assert deliveries[0] == deliveries[1]
    assert deliveries[0].num_rows > 25


def delivery_rows(broker: BrokerRef) -> pa.Table:
    with open_store(broker.address) as store:
        return pa.Table.from_batches(
            store.batches(STORED_DELIVERIES, DELIVERIES.format(lo=0, hi=10**9)), schema=STORED_DELIVERIES
        )


def test_ranges_are_bounded_and_give_each_message_once(world: World) -> None:
    world.talk(20)
    broker = the_broker(world)
    whole = whole_history(broker)
    parts = [part for each in whole for part in split(each, 6)]
    assert all(part.span <= 6 for part in parts)
    numbers = [
        number for part in parts for batch in read_range(part) for number in batch.column("history_id").to_pylist()
    ]
    assert sorted(numbers) == sorted(read_all(broker)["history_id"].to_pylist())
    assert [*sum(pack(parts, 12), ())] == parts
    many = [MessageRange(broker, f"mesh_{number}", 0, 1) for number in range(300)]
    assert 1 < len(pack(many)) < 10


def test_a_batch_is_no_larger_than_it_may_be(world: World) -> None:
    world.talk(20)
    sizes = [
        batch.num_rows for wanted in whole_history(the_broker(world)) for batch in read_range(wanted, batch_rows=8)
    ]
    assert sum(sizes) == 21
    assert max(sizes) <= 8


def test_a_broker_that_is_being_read_goes_on_accepting(world: World) -> None:
    world.talk(20)
    (wanted, _) = whole_history(the_broker(world))
    reading = read_range(wanted, batch_rows=5)
    first = next(reading).num_rows
    world.accepted(world.ann, make_send("meanwhile"))
    assert first + sum(batch.num_rows for batch in reading) == 20
    with open_store(the_broker(world).address) as store:
        assert read_bounds(store)[world.mesh_id] > wanted.hi


def test_nothing_can_be_written_through_a_reading(world: World) -> None:
    broker = the_broker(world)
    with pytest.raises((BrokerInvalid, ServiceUnavailable), match="read-only"), open_store(broker.address) as store:
        store.rows("DELETE FROM member")


def test_a_mark_of_one_mesh_is_not_passed_by_a_late_commit_of_another(postgresql: Server, clock: ManualClock) -> None:
    """Two transactions of two meshes take their numbers in one order and commit in the other."""
    insert = (
        "INSERT INTO message_history (mesh_id, broker_message_id, client_message_id, sender_id, sender_key,"
        " sender_name, kind, ref, priority, meta, body_bytes, recipients, accepted_ms)"
        " VALUES (%s, %s, 'c', %s, '', '', 'queue', '*', 'next', '{}', 0, 0, 0) RETURNING history_id"
    )
    url = postgresql.new_url()
    with opened_world(url, clock) as world, ExitStack() as stack:
        early, late = (stack.enter_context(psycopg.connect(url)) for _ in range(2))
        meshes = ((early, world.mesh_id, world.ann), (late, world.other_mesh_id, world.eve))
        numbers: list[int] = []
        for connection, mesh_id, sender in meshes:
            connection.execute("SELECT 1 FROM mesh WHERE mesh_id = %s FOR UPDATE", (mesh_id,))
            row = connection.execute(insert, (mesh_id, f"bm_{mesh_id}", sender.member_id)).fetchone()
            assert row is not None
            numbers.append(row[0])
        assert numbers[0] < numbers[1]
        late.commit()
        (broker,) = find_brokers([url])
        first = whole_history(broker)
        assert [(each.mesh_id, each.hi) for each in first] == [(world.other_mesh_id, numbers[1])]
        early.commit()
        second = [each for each in whole_history(broker) if each.mesh_id == world.mesh_id]
        assert [batch.column("history_id").to_pylist() for batch in read_range(second[0])] == [[numbers[0]]]
        assert second[0].hi < first[0].hi, "one mark for the whole database would have passed it"


def test_a_user_of_the_database_that_may_only_read_is_enough(postgresql: Server, clock: ManualClock) -> None:
    url = postgresql.new_url()
    reader = url.rpartition("%3D")[2].replace("t_", "reader_")
    with opened_world(url, clock) as world, psycopg.connect(url, autocommit=True) as owner:
        world.talk(5)
        owner.execute(f"CREATE ROLE {reader} LOGIN".encode())
        mine = url.replace("parley@", f"{reader}@")
        with pytest.raises(BrokerInvalid):
            find_brokers([mine])
        (schema,) = owner.execute("SELECT current_schema()").fetchall()[0]
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {reader}".encode())
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}".encode())
        (broker,) = find_brokers([mine])
        assert read_all(broker).num_rows == 6
        assert delivery_rows(broker).num_rows == world.counts()["delivery_queue"]


@pytest.mark.parametrize(
    "name",
    [
        "postgresql://ann:geh%40eim@127.0.0.1:1/mesh",
        "postgresql://ann@127.0.0.1:1/mesh?password=geh%40eim",
        "postgres://127.0.0.1:1/mesh?user=ann&sslpassword=geh%40eim",
    ],
)
def test_a_password_is_in_nothing_that_is_shown_or_handed_on(name: str) -> None:
    address = address_of(name)
    assert set(address.secrets.values()) == {"geh@eim"}
    assert address.source == "postgresql://127.0.0.1:1/mesh"
    travelled = pickle.loads(pickle.dumps(address))
    assert travelled == address
    assert travelled.secrets == {}
    with pytest.raises(ServiceUnavailable) as refused:
        find_brokers([name])
    with pytest.raises(InvalidInput) as by_option:
        brokers_of({"brokers": name})
    shown = [repr(address), str(address), repr(travelled), str(refused.value), refused.value.details]
    for text in (*shown, pickle.dumps(address), str(by_option.value), refused.value.__cause__):
        assert re.search(r"geh.{1,3}eim", repr(text)) is None


def test_a_password_opens_the_database(postgresql: Server, clock: ManualClock) -> None:
    """The private server trusts everybody; that the password is sent along is seen by what libpq was given."""
    url = postgresql.new_url()
    with opened_world(url, clock):
        address = address_of(f"{url}&password={quote('geh@eim')}")
        with open_store(address) as store:
            info = store._connection.info  # type: ignore[attr-defined]
            assert info.password == "geh@eim"


def test_what_is_no_broker_is_refused(
    postgresql: Server, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"no database at all" * 100)
    for name in (str(tmp_path / "none.db"), str(other), postgresql.new_url(), "postgresql://[/"):
        with pytest.raises(BrokerInvalid) as refused:
            find_brokers([name])
        assert refused.value.hint
    for path, copy in ((tmp_path / "a.db", tmp_path / "b.db"),):
        with opened_world(str(path), clock):
            back_up(str(path), copy, clock)
        assert len(find_brokers([str(path), str(path)])) == 1
        with pytest.raises(HubAmbiguous):
            find_brokers([str(path), str(copy)])
        monkeypatch.setattr(stores, "KNOWN_SCHEMA", 0)
        with pytest.raises(SchemaTooNew):
            find_brokers([str(path)])


def test_every_schema_of_a_broker_is_known_to_the_pipeline() -> None:
    assert len(load_migrations("parley.broker", "schema/sqlite")) == stores.KNOWN_SCHEMA
    assert len(load_migrations("parley.broker", "schema/postgresql")) == stores.KNOWN_SCHEMA


@pytest.mark.parametrize("options", [{}, {"brokers": " , "}])
def test_a_source_without_brokers_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        brokers_of(options)


def test_an_address_is_compared_without_its_password() -> None:
    assert address_of("postgresql://h/d?password=x") == address_of("postgresql://h/d") != StoreAddress(path="/x")
