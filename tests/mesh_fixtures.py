"""Writes the small databases of the newest schemas of a broker and a daemon, which later versions must still migrate.

Run it once when a schema lands, and name what it belongs to::

    python -m tests.mesh_fixtures inbox > tests/fixtures/schema/inbox/v2.sql

The names are ``broker-sqlite``, ``broker-postgresql``, ``outbox`` and ``inbox``. A fixture that is in the repository is
never written again.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg

from parley.broker.backup import IDENTITIES, TABLES
from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.rules import audit, grants, keys, topics
from parley.broker.rules.members import end_membership
from parley.broker.rules.presence import connect, set_presence
from parley.broker.sqlite_store import open_sqlite_store
from parley.broker.store import BrokerStore
from parley.core.clock import ManualClock
from parley.core.roster import Refusal, follow
from parley.daemon.databases import open_inbox, open_outbox
from parley.daemon.inbox.events import append_event
from parley.daemon.inbox.reading import mark_seen
from parley.daemon.inbox.receive import receive
from parley.daemon.outbox.accept import message_fingerprint
from parley.daemon.outbox.requeue import requeue
from parley.daemon.outbox.sending import Dead, Done, settle, take_due
from parley.daemon.outbox.terms import DEFAULT_TERMS, write_terms
from parley.daemon.rosters.copy import Confirmed, Marks
from parley.daemon.rosters.rows import add_invite, keep_entries, keep_marks, verify
from parley.sqlite import load_migrations
from tests.conformance.broker.circle import Circle, key, make_send
from tests.conformance.broker.rostered import Rostered
from tests.core.roster.town import Town
from tests.daemon.world import DAY, NOW, commit, message, opens, opens_nothing, push, put, sealed
from tests.postgres import private_server
from tests.workspace.databases import dump

FOLDER = Path(__file__).parent / "fixtures" / "schema"
SEARCHED = "inbox_fts"


def newest(name: str) -> Path:
    """The fixture of the newest schema."""
    return max((FOLDER / name).glob("v*.sql"), key=lambda path: int(path.stem[1:]))


def fill_broker(store: BrokerStore, clock: ManualClock) -> None:
    """Messages of each kind, delivered, leased, waiting and dead; and what is around them."""
    circle = Circle(store, clock)
    ann, bob, cid = circle.ann, circle.bob, circle.cid
    for member in (ann, bob):
        store.call(lambda tx, each=member: topics.subscribe(tx, circle.mesh_id, each.member_id, "alerts"))
    store.call(lambda tx: topics.join_group(tx, circle.mesh_id, cid.member_id, "crew/night"))
    store.call(lambda tx: grants.grant(tx, circle.mesh_id, cid.member_id, ann.member_id, ["dm"]))
    store.call(lambda tx: set_presence(tx, cid.member_id, "dnd", "asleep", None))
    store.call(lambda tx: keys.give_key(tx, circle.mesh_id, ann.member_id, bob.member_id, 1, "c2VhbGVk"))
    store.call(lambda tx: audit.record(tx, circle.mesh_id, "member_kicked", ann.member_id, member_id=bob.member_id))
    circle.accepted(ann, make_send("delivered"))
    circle.acknowledge(bob, *circle.claim(bob))
    circle.accepted(ann, make_send("topical", kind="topic", ref="alerts", mentions=[key("bob")]))
    circle.claim(bob, "gone")
    circle.accepted(bob, make_send("everybody", kind="queue", ref="*", priority="low"))
    circle.accepted(bob, make_send("group", kind="queue", ref="@crew"))
    circle.accepted(circle.eve, make_send("elsewhere", ref=key("eve")))
    dan = circle.join("dan")
    circle.accepted(ann, make_send("too late", ref=key("dan")))
    store.call(lambda tx: end_membership(tx, circle.mesh_id, dan.member_id, "banned"))
    store.call(
        lambda tx: connect(
            tx,
            connection_id="gone",
            broker_instance="b0",
            mesh_id=circle.mesh_id,
            member_id=bob.member_id,
            instance_id="i0",
            policy="prefer_newest",
            stale_ms=75_000,
        )
    )
    rostered = Rostered(store, clock, "rostered")
    rostered.join("bob")
    rostered.join("cid")
    rostered.do("ada", "remove", rostered.town.of("cid"))


def fill_outbox(db: apsw.Connection) -> None:
    """A row in each state, and one that took another's place."""
    for name in ("done", "dead", "inflight"):
        put(db, message(name, f"text of {name}"))
    commit(db, lambda tx: take_due(tx, "mesh_1", now_ms=NOW, limit=10, max_age_ms=DAY))
    commit(db, lambda tx: settle(tx, Done("done", "bm_1", 1), now_ms=NOW))
    commit(db, lambda tx: settle(tx, Dead("dead", "NO_SUCH_DESTINATION: nobody"), now_ms=NOW))
    put(db, message("pending", "text of pending", meta={"a": 1}))
    put(db, message("replaced", "text of replaced"))
    again = message("again", "text of replaced")
    fingerprint = message_fingerprint(again)
    commit(
        db,
        lambda tx: requeue(
            tx,
            "out_replaced",
            again,
            fingerprint,
            sealed(again),
            new_id="out_z",
            by="operator",
            force=False,
            now_ms=NOW,
        ),
    )
    commit(db, lambda tx: write_terms(tx, "mesh_1", DEFAULT_TERMS, now_ms=NOW))
    town = Town()
    steps, invite = follow(None, town.log), town.invite("ada")
    assert not isinstance(steps, Refusal)
    commit(db, lambda tx: keep_entries(tx, "mesh_2", steps))
    commit(db, lambda tx: keep_marks(tx, "mesh_2", Marks(confirmed=Confirmed(0, "mem_b", NOW))))
    commit(db, lambda tx: add_invite(tx, "mesh_2", invite, now_ms=NOW))
    commit(db, lambda tx: verify(tx, "mesh_2", "mem_b", "ab" * 32, now_ms=NOW))


def fill_inbox(db: apsw.Connection) -> None:
    """A message that was seen, one that was not, one that no key opens, and what happened."""
    for number, opener in ((1, opens), (2, opens), (3, opens_nothing)):
        commit(
            db,
            lambda tx, n=number, opener=opener: receive(
                tx,
                push(n, f"m-{n}", f"text {n}"),
                opener,
                mesh_id="mesh_1",
                recipient_id="mem_b",
                row_id=f"in_{n}",
                now_ms=NOW + n,
            ),
        )
    commit(db, lambda tx: mark_seen(tx, ["in_1"], now_ms=NOW + 9))
    commit(db, lambda tx: append_event(tx, "broker_status", {"status": "open"}, now_ms=NOW + 9, mesh_id="mesh_1"))


def sqlite_script(connection: apsw.Connection) -> str:
    """The schema and the rows as statements, in an order in which they can run."""
    listed = dump(connection, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    tables = [(name, sql) for name, sql in listed if not name.startswith(f"{SEARCHED}_")]
    lines = [f"{sql};" for _, sql in tables]
    for name, _ in tables:
        if name == SEARCHED:
            lines.append(f"INSERT INTO {SEARCHED} ({SEARCHED}) VALUES ('rebuild');")
            continue
        columns = [row[1] for row in dump(connection, f"PRAGMA table_info({name})")]
        quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
        lines += _inserts(name, columns, (values for (values,) in dump(connection, f"SELECT {quoted} FROM {name}")))
    rest = dump(connection, "SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL")
    lines += [f"{sql};" for (sql,) in rest]
    version = dump(connection, "PRAGMA user_version")[0][0]
    return "\n".join([*lines, f"PRAGMA user_version={version};"])


def postgresql_script(url: str) -> str:
    """The migrations as they are now, and the rows."""
    lines = [str(step.sql) for step in load_migrations("parley.broker", "schema/postgresql")]
    with psycopg.connect(url) as connection:
        for table in (*TABLES, "connection"):
            named = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema()"
                " AND table_name = %s ORDER BY ordinal_position",
                (table,),
            ).fetchall()
            columns = [str(row[0]) for row in named]
            quoted = " || ', ' || ".join(f"quote_nullable({column})" for column in columns)
            rows = connection.execute(f"SELECT {quoted} FROM {table}").fetchall()  # type: ignore[call-overload]
            lines += _inserts(table, columns, (str(row[0]) for row in rows), " OVERRIDING SYSTEM VALUE")
        lines += [
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), (SELECT max({column}) FROM {table}));"
            for table, column in IDENTITIES.items()
        ]
    return "\n".join(lines)


def _inserts(table: str, columns: list[str], rows: Iterable[str], how: str = "") -> list[str]:
    return [f"INSERT INTO {table} ({', '.join(columns)}){how} VALUES ({values});" for values in rows]


def _of_broker_file(folder: Path) -> str:
    clock = ManualClock()
    with closing(open_sqlite_store(folder / "broker.db", clock, synchronous="normal")) as store:
        fill_broker(store, clock)
        return sqlite_script(store.connection)


def _of_broker_database(_: Path) -> str:
    clock = ManualClock()
    with private_server() as server:
        url = server.new_url()
        with closing(PostgresqlStore(url, clock)) as store:
            fill_broker(store, clock)
        return postgresql_script(url)


def _of_outbox(folder: Path) -> str:
    with closing(open_outbox(folder / "outbox.db")) as connection:
        fill_outbox(connection)
        return sqlite_script(connection)


def _of_inbox(folder: Path) -> str:
    with closing(open_inbox(folder / "inbox.db").connection) as connection:
        fill_inbox(connection)
        return sqlite_script(connection)


FIXTURES: dict[str, Callable[[Path], str]] = {
    "broker-sqlite": _of_broker_file,
    "broker-postgresql": _of_broker_database,
    "outbox": _of_outbox,
    "inbox": _of_inbox,
}


def main(arguments: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(FIXTURES[arguments[0]](Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
