"""The two schemas say the same: the rules are written once for both."""

from contextlib import closing
from pathlib import Path

from parley.broker.backup import MOMENTARY, TABLES
from parley.broker.postgresql_store import PostgresqlStore
from parley.broker.rules import deliver
from parley.broker.sqlite_store import open_sqlite_store
from parley.core.clock import ManualClock
from parley.sqlite import load_migrations
from tests.postgres import Server


def sqlite_columns(path: Path) -> dict[str, list[tuple[str, bool]]]:
    with closing(open_sqlite_store(path, ManualClock(), synchronous="normal")) as store:
        tables = [
            str(row[0])
            for row in store.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not str(row[0]).startswith("sqlite_")
        ]
        return {
            table: [
                (str(row[1]), bool(row[3]) or (str(row[2]) == "INTEGER" and bool(row[5])))
                for row in store.connection.execute(f"PRAGMA table_info({table})")
            ]
            for table in tables
        }


def test_both_have_the_same_tables_columns_and_obligations(tmp_path: Path, postgresql: Server) -> None:
    sqlite = sqlite_columns(tmp_path / "broker.db")
    with closing(PostgresqlStore(postgresql.new_url(), ManualClock())) as store:
        rows = store.call(
            lambda tx: tx.all(
                "SELECT table_name, column_name, is_nullable FROM information_schema.columns"
                " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
            )
        )
    found: dict[str, list[tuple[str, bool]]] = {}
    for table, column, nullable in rows:
        found.setdefault(table, []).append((column, nullable == "NO"))
    assert found == sqlite
    assert set(found) == {*TABLES, *MOMENTARY}


def test_what_is_done_all_the_time_looks_only_at_what_is_due(tmp_path: Path) -> None:
    """Delivered rows stay for weeks; nobody may walk through them for the few that wait."""
    with closing(open_sqlite_store(tmp_path / "broker.db", ManualClock(), synchronous="normal")) as store:
        for sql in (
            deliver._DUE,  # pyright: ignore[reportPrivateUsage]
            "UPDATE delivery_queue SET leased_by = NULL WHERE state = 'leased' AND leased_by = 'x'",
            "SELECT 1 FROM delivery_queue WHERE state IN ('queued', 'leased') AND state = 'queued' AND queued_ms < 1",
            "SELECT 1 FROM delivery_queue WHERE state = 'leased' AND (lease_until_ms <= 1 OR lease_until_ms > 2)",
        ):
            values = (1,) * sql.count("?")
            plan = " ".join(str(row) for row in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))
            assert "INDEX delivery_" in plan, plan


def test_both_have_the_same_migrations() -> None:
    steps = [
        [(step.number, step.name) for step in load_migrations("parley.broker", f"schema/{kind}")]
        for kind in ("sqlite", "postgresql")
    ]
    names = ("broker", "profile", "audit_end", "ephemeral", "member_pages", "roster")
    assert steps[0] == steps[1] == list(enumerate(names, 1))
