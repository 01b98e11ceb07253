"""The checks of ``doctor``: each finds its own trouble and says what to do."""

from pathlib import Path

import apsw
import pytest

from parley.core.settings import RateLimitSettings, TroubleSettings
from parley.workspace import checks
from parley.workspace.checks import Check, check_workspace
from parley.workspace.layout import Workspace
from parley.workspace.versions import MIGRATIONS
from tests.workspace.databases import add_channel, add_event, add_message, add_topic, make_agentlip, prepared, writing

EVERYTHING = TroubleSettings(disk_free_bytes_min=2**62, wal_bytes_max=0)


@pytest.fixture
def healthy(workspace: Workspace) -> Workspace:
    with writing(workspace) as connection:
        prepared(connection, workspace)
        add_channel(connection)
        add_topic(connection)
        for number in range(6):
            add_message(connection, f"msg_{number}", "hello " * 50)
            add_event(connection)
    for path in (workspace.token, workspace.server_file):
        path.touch(mode=0o600)
    workspace.config.write_text("[trouble]\ndisk_free_bytes_min = 0\n")
    return workspace


def find(workspace: Workspace, name: str) -> Check:
    (found,) = [check for check in check_workspace(workspace) if check.name == name]
    return found


def test_a_healthy_workspace_passes_every_check(healthy: Workspace) -> None:
    found = list(check_workspace(healthy))
    assert [check for check in found if check.status != "ok" or check.fix] == []
    assert [check.name for check in found] == [
        "suspect",
        "modes",
        "config",
        "rate_limits",
        "disk",
        "wal",
        "schema",
        "integrity",
        "foreign_keys",
        "events",
        "last_event",
        "coordination",
    ]
    assert find(healthy, "events").message == "6 events from 1 to 6, no gaps"
    assert find(healthy, "last_event").message == "Event 6 at 2026-01-01T00:00:00.000Z: message.created"


def test_the_marker_of_a_damaged_database_is_an_error(healthy: Workspace) -> None:
    healthy.suspect.touch()
    assert find(healthy, "suspect").status == "error"


@pytest.mark.parametrize(
    ("name", "mode", "status"),
    [
        ("token", 0o644, "error"),
        ("server.json", 0o640, "error"),
        ("db.sqlite3", 0o644, "warn"),
        (".", 0o777, "warn"),
        (".", 0o755, "ok"),
    ],
)
def test_files_that_others_could_read_or_replace(healthy: Workspace, name: str, mode: int, status: str) -> None:
    (healthy.state / name).chmod(mode)
    found = find(healthy, "modes")
    assert found.status == status
    if status != "ok":
        assert (healthy.state / name).resolve().name in found.message
        assert found.fix


def test_a_bad_configuration_is_named_and_the_rest_is_still_checked(healthy: Workspace) -> None:
    healthy.config.write_text("[hub]\nprot = 1\n")
    found = find(healthy, "config")
    assert found.status == "error"
    assert "hub.prot" in found.message
    assert find(healthy, "integrity").status == "ok"


@pytest.mark.parametrize(
    "limits",
    [
        RateLimitSettings(enabled=False),
        RateLimitSettings(per_connection=2000, overall=1000),
        RateLimitSettings(overall=10_000_000),
    ],
)
def test_rate_limits_that_limit_nothing_are_a_warning(limits: RateLimitSettings) -> None:
    found = checks.check_rate_limits(limits)
    assert found.status == "warn"
    assert found.fix


def test_little_space_and_a_large_log_are_warnings(healthy: Workspace) -> None:
    assert checks.check_disk(healthy.state, EVERYTHING).status == "warn"
    healthy.wal.write_bytes(b"x" * 5000)
    assert checks.check_wal(healthy.db, EVERYTHING).status == "warn"
    assert checks.check_wal(healthy.db, TroubleSettings()).message.endswith("4 KiB")


def test_an_agentlip_database_will_be_adopted(tmp_path: Path) -> None:
    workspace = make_agentlip(tmp_path, fts=True)
    found = find(workspace, "schema")
    assert (found.status, found.fix) == ("warn", "Run `parley up`.")
    assert find(workspace, "integrity").status == "ok"
    assert find(workspace, "events").status == "ok"


def test_an_older_schema_will_be_migrated(healthy: Workspace) -> None:
    reading = checks.open_reading(healthy)
    reading.close()
    newer = len(MIGRATIONS) + 1
    found = checks.check_schema(reading, newest=newer)
    assert (found.status, f"to {newer}" in found.message) == ("warn", True)


def test_a_newer_schema_is_one_error_and_ends_the_checks_of_the_database(healthy: Workspace) -> None:
    with writing(healthy) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'parley_schema'")
    found = find(healthy, "schema")
    assert found.status == "error"
    assert "99" in found.message


def test_damage_is_found(healthy: Workspace) -> None:
    with writing(healthy) as connection:
        rows = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'idx_messages_topic'").fetchall()
        (size,) = connection.execute("PRAGMA page_size").fetchall()[0]
    with healthy.db.open("r+b") as file:
        file.seek((int(str(rows[0][0])) - 1) * int(str(size)) + 8)
        file.write(b"\xff" * 100)
    assert find(healthy, "integrity").status == "error"


def test_a_file_that_is_no_database_is_one_error(healthy: Workspace) -> None:
    healthy.db.write_bytes(b"nothing of the kind" * 500)
    found = find(healthy, "database")
    assert found.status == "error"
    assert "doctor --repair" in found.fix


def test_references_to_nothing_are_found(healthy: Workspace) -> None:
    with apsw.Connection(str(healthy.db)) as careless:
        careless.execute("UPDATE messages SET topic_id = 'gone' WHERE id = 'msg_2'")
    found = find(healthy, "foreign_keys")
    assert found.status == "error"
    assert "in messages, row 3, to topics" in found.message


@pytest.mark.parametrize(
    ("removed", "floor", "message"),
    [
        ("event_id IN (2, 5)", None, "4 events, with gaps at event 2, 5"),
        ("event_id <= 2", None, "4 events, with gaps at event 1"),
        ("event_id <= 2", 2, "4 events from 3 to 6, no gaps"),
        ("event_id <= 3", 2, "3 events, with gaps at event 3"),
        ("TRUE", None, "The log is empty"),
    ],
)
def test_gaps_in_the_log_are_found_and_archives_are_none(
    healthy: Workspace, removed: str, floor: int | None, message: str
) -> None:
    with writing(healthy) as connection:
        connection.execute("INSERT INTO meta VALUES ('archive_in_progress', '')")
        connection.execute(f"DELETE FROM events WHERE {removed}")
        if floor is not None:
            connection.execute("INSERT INTO archives VALUES ('a', 'x', ?, 2, 0, 't')", (floor,))
    found = find(healthy, "events")
    assert found.message == message
    assert found.status == ("warn" if "gaps at" in message else "ok")


def test_an_empty_log_has_no_last_event(workspace: Workspace) -> None:
    with writing(workspace) as connection:
        prepared(connection, workspace)
    assert find(workspace, "last_event").message == "No event yet"


def test_leases_that_should_never_have_been_are_an_error(healthy: Workspace) -> None:
    assert find(healthy, "coordination").message == "0 agents, 0 tasks open and 0 claimed, 0 leases"
    insert = (
        "INSERT INTO leases (id, holder, patterns, mode, generation, acquired_at, expires_at, status)"
        " VALUES (?, ?, ?, ?, ?, 't', 't', 'active')"
    )
    with writing(healthy) as connection:
        connection.execute(insert, ("lease_1", "ann", '["src/**"]', "exclusive", 1))
        connection.execute(insert, ("lease_2", "ann", '["src/a"]', "exclusive", 2))
        connection.execute(insert, ("lease_3", "bob", '["docs"]', "shared", 3))
    assert find(healthy, "coordination").message == "0 agents, 0 tasks open and 0 claimed, 3 leases"
    with writing(healthy) as connection:
        connection.execute(insert, ("lease_4", "eve", '["src/a", "docs"]', "shared", 4))
    check = find(healthy, "coordination")
    assert check.status == "error"
    assert "lease_1 of ann and lease_4 of eve" in check.message
