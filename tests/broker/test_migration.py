"""A broker of every landed schema is migrated with all that it holds, in both stores."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.rules.accept import incoming
from parley.broker.rules.audit import verify
from parley.broker.rules.members import members_after
from parley.broker.rules.orphans import find_orphans
from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from parley.core.errors import SchemaTooNew
from parley.sqlite import load_migrations
from parley.wire.broker import Accepted
from tests.conformance.broker.circle import accept, claim_for, make_send
from tests.mesh_fixtures import FOLDER, newest
from tests.postgres import Server
from tests.workspace.databases import run_script, shape

STORES = ("sqlite", "postgresql")
LANDED = [(store, path.stem) for store in STORES for path in sorted((FOLDER / f"broker-{store}").glob("v*.sql"))]


@pytest.fixture
def old(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[BrokerStore]:
    """The broker of an older version, opened by this one."""
    kind, version = request.param
    text = (FOLDER / f"broker-{kind}" / f"{version}.sql").read_text(encoding="utf-8")
    if kind == "sqlite":
        path: Path = request.getfixturevalue("tmp_path") / "old.db"
        with closing(apsw.Connection(str(path))) as connection:
            run_script(connection, text)
        with closing(open_sqlite_store(path, clock, synchronous="normal")) as store:
            yield store
        return
    server: Server = request.getfixturevalue("postgresql")
    url = server.new_url()
    with psycopg.connect(url) as connection:
        connection.execute(text)  # type: ignore[call-overload]
    with closing(PostgresqlStore(url, clock)) as store:
        yield store


@pytest.mark.parametrize("old", LANDED, indirect=True, ids="-".join)
def test_everything_is_still_there_and_the_broker_goes_on(old: BrokerStore) -> None:
    (version,) = old.call(lambda tx: tx.one("SELECT value FROM meta WHERE key = 'schema_version'")) or ("",)
    assert int(version) == len(load_migrations("parley.broker", "schema/sqlite"))
    assert old.call(find_orphans) == []
    rows = old.call(lambda tx: tx.all("SELECT mesh_id, slug FROM mesh ORDER BY slug"))
    red = next(mesh_id for mesh_id, slug in rows if slug == "red")
    assert old.call(lambda tx: verify(tx, red)) is None
    members = {
        each.display_name: each
        for former in (False, True)
        for each in old.call(lambda tx, gone=former: members_after(tx, red, "", 10, former=gone))
    }
    assert {name: each.state for name, each in members.items()} == {
        "ann": "active",
        "bob": "active",
        "cid": "active",
        "dan": "banned",
    }
    states = old.call(lambda tx: tx.all("SELECT state, count(*) FROM delivery_queue GROUP BY state ORDER BY state"))
    assert [tuple(row) for row in states] == [("dead", 1), ("delivered", 1), ("leased", 1), ("queued", 4)]
    again = incoming(red, members["ann"].member_id, make_send("delivered"))
    new = incoming(red, members["ann"].member_id, make_send("after the migration"))
    statuses = [
        outcome.value.answer.status
        for outcome in accept(old, [again, new])
        if outcome.value is not None and isinstance(outcome.value.answer, Accepted)
    ]
    assert statuses == [200, 201]
    assert len(claim_for(old, members["bob"].member_id, "conn", 10)) == 1


def test_every_schema_has_a_fixture_and_the_newest_is_that_of_a_new_file(tmp_path: Path, clock: ManualClock) -> None:
    for store in STORES:
        landed = len(load_migrations("parley.broker", f"schema/{store}"))
        assert [version for kind, version in LANDED if kind == store] == [f"v{n + 1}" for n in range(landed)]
    with closing(apsw.Connection(str(tmp_path / "old.db"))) as connection:
        run_script(connection, newest("broker-sqlite").read_text(encoding="utf-8"))
        with closing(open_sqlite_store(tmp_path / "new.db", clock, synchronous="normal")) as store:
            assert shape(connection) == shape(store.connection)


def test_a_file_of_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    open_sqlite_store(path, ManualClock()).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA journal_mode=delete").fetchall()
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match="99"):
        open_sqlite_store(path, ManualClock())
    assert path.read_bytes() == before
