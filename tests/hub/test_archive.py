"""Archiving: what goes, what stays, and that nothing is lost wherever it stops."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from parley.core.clock import ManualClock, iso
from parley.core.errors import InternalError, StartupFailed
from parley.core.fold import HubState, LoggedEvent, differences, fold
from parley.core.ids import IdSource
from parley.hub import archive
from parley.hub.archive import ArchiveReport, archive_before
from parley.sqlite import foreign_key_check, integrity_check
from parley.workspace import queries
from parley.workspace.fts import index_new
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading_file
from tests.hub.histories import History
from tests.workspace.databases import START_MS, dump, make_agentlip, new_workspace, prepared, run_script, writing

DAY_MS = 86_400_000
OLDER = Path(__file__).parent.parent / "fixtures" / "schema" / "v2.sql"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return new_workspace(tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def connection(workspace: Workspace) -> Iterator[apsw.Connection]:
    with writing(workspace) as connection:
        prepared(connection, workspace)
        yield connection


@pytest.fixture
def history(connection: apsw.Connection, clock: ManualClock) -> History:
    return History(connection, 7, clock)


def take(connection: apsw.Connection, workspace: Workspace, clock: ManualClock, before_ms: int) -> ArchiveReport:
    return archive_before(connection, workspace, before_ms=before_ms, now_ms=clock.now_ms())


def whole_log(connection: apsw.Connection, workspace: Workspace) -> list[LoggedEvent]:
    """The events of all recorded archives, in order, and then the live ones."""
    log: list[LoggedEvent] = []
    for (name,) in dump(connection, "SELECT name FROM archives ORDER BY up_to_event_id"):
        with open_reading_file(workspace.archives / name) as reading:
            log += queries.logged_events(reading.connection)
    return [*log, *queries.logged_events(connection)]


def assert_sound(connection: apsw.Connection, workspace: Workspace) -> None:
    """The log of archives and database together folds to exactly what the database holds."""
    log = whole_log(connection, workspace)
    assert [event.event_id for event in log] == list(range(1, len(log) + 1))
    assert differences(fold(log), queries.stored_state(connection)) == []
    assert integrity_check(connection) == []
    assert foreign_key_check(connection) == []


@pytest.mark.parametrize("seed", range(12))
def test_archives_and_log_together_fold_to_the_tables(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, seed: int
) -> None:
    rng = random.Random(seed)
    history = History(connection, seed, clock)
    moved = 0
    for _ in range(4):
        history.run(rng.randrange(5, 60))
        clock.jump(1000)
        report = take(connection, workspace, clock, rng.randrange(START_MS, clock.now_ms() + 1))
        moved += report.events
        assert_sound(connection, workspace)
    assert moved > 0


def test_an_archive_holds_what_left_and_can_be_read_by_itself(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    history.run(80)
    before = queries.stored_state(connection)
    log = list(queries.logged_events(connection))
    clock.advance(3600)
    report = take(connection, workspace, clock, clock.now_ms())
    assert report.path is not None
    with open_reading_file(report.path) as reading:
        held = queries.stored_state(reading.connection)
        assert list(queries.logged_events(reading.connection)) == log
        assert queries.search(reading.connection, "words", limit=5).messages
        assert integrity_check(reading.connection) == []
        assert foreign_key_check(reading.connection) == []
    left = queries.stored_state(connection)
    for table in ("messages", "enrichments"):
        assert {**held.table(table), **left.table(table)} == before.table(table)
        assert not held.table(table).keys() & left.table(table).keys()
    assert held.channels == left.channels == before.channels
    assert held.topics == left.topics == before.topics
    assert report.messages == len(held.messages) > 0
    assert report.events == len(log)


def test_a_database_that_no_hub_has_opened_since_an_upgrade_can_be_archived(tmp_path: Path) -> None:
    workspace = new_workspace(tmp_path)
    with writing(workspace) as connection:
        run_script(connection, OLDER.read_text())
        report = take(connection, workspace, ManualClock(START_MS + DAY_MS), START_MS + DAY_MS)
        assert report.events > 0
        prepared(connection, workspace)
        assert integrity_check(connection) == []


def test_the_boundary_is_the_first_event_at_or_after_the_time(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    history.message("old")
    clock.advance(60)
    moment = clock.now_ms()
    kept = history.message("at the time itself")
    clock.jump(-120_000)
    also_kept = history.message("later, but the clock went back")
    clock.advance(3600)
    report = take(connection, workspace, clock, moment)
    assert (report.events, report.messages) == (3, 1)  # channel, topic, message
    assert set(queries.stored_state(connection).messages) == {kept, also_kept}


def test_a_message_that_changed_since_stays_and_enrichment_is_no_change(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    changed = history.message("edited later")
    enriched = history.message("only enriched later")
    clock.advance(60)
    moment = clock.now_ms()
    history.edit(changed)
    for _ in range(4):
        history.enrich(enriched)
    take(connection, workspace, clock, moment)
    assert list(queries.stored_state(connection).messages) == [changed]
    assert_sound(connection, workspace)


def test_the_record_is_an_event_a_row_and_a_digest(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    history.run(30)
    clock.advance(60)
    newest = queries.latest_event_id(connection)
    report = take(connection, workspace, clock, clock.now_ms())
    assert report.path is not None
    assert report.path.parent == workspace.archives
    assert report.path.name.startswith(f"archive-{newest}-2026")
    assert report.path.stat().st_mode & 0o777 == 0o400
    assert hashlib.sha256(report.path.read_bytes()).hexdigest() == report.sha256
    assert list(workspace.archives.iterdir()) == [report.path]
    (event,) = queries.read_events(connection, after=newest, until=newest + 9, limit=9)
    assert (event.name, event.entity.type, event.ts) == ("workspace.archived", "workspace", iso(clock.now_ms()))
    assert event.data_json == {
        "archive": report.path.name,
        "sha256": report.sha256,
        "up_to_event_id": newest,
        "events": newest,
        "messages": report.messages,
    }
    assert queries.oldest_cursor(connection) == (newest, report.path.name)
    assert queries.read_meta(connection, archive.IN_PROGRESS) is None


@pytest.mark.parametrize("later_ms", [0, 10 * DAY_MS], ids=["until now", "until a time to come"])
def test_archiving_again_finds_nothing_and_says_so(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History, later_ms: int
) -> None:
    history.run(30)
    clock.advance(60)
    until = clock.now_ms() + later_ms
    assert take(connection, workspace, clock, until).events > 0
    clock.advance(60)
    before = dump(connection, "SELECT * FROM events")
    again = take(connection, workspace, clock, until)
    assert (again.path, again.events, again.messages) == (None, 0, 0)
    assert dump(connection, "SELECT * FROM events") == before
    assert len(list(workspace.archives.iterdir())) == 1


def test_an_empty_workspace_has_nothing_to_archive(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock
) -> None:
    assert take(connection, workspace, clock, clock.now_ms()).path is None


def test_the_full_text_index_forgets_what_was_archived(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    history.message("a walrus")
    index_new(connection)
    clock.advance(60)
    take(connection, workspace, clock, clock.now_ms())
    history.message("another walrus")
    index_new(connection)
    assert [hit.content_raw for hit in queries.search(connection, "walrus", limit=9).messages] == ["another walrus"]
    connection.execute("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")


def test_ids_keep_growing_after_the_largest_ones_left(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    for _ in range(5):
        newest = history.message()
    clock.advance(60)
    take(connection, workspace, clock, clock.now_ms())
    source = IdSource(queries.largest_ids(connection))
    assert source.new("msg_", START_MS - DAY_MS) > newest


def test_a_failure_after_the_file_was_sealed_loses_nothing_and_the_next_run_cleans_up(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    history.run(40)
    clock.advance(60)
    before = queries.stored_state(connection)
    connection.execute("CREATE TRIGGER fail BEFORE INSERT ON archives BEGIN SELECT RAISE(ABORT, 'disk gone'); END")
    with pytest.raises(InternalError):
        take(connection, workspace, clock, clock.now_ms())
    connection.execute("DROP TRIGGER fail")
    assert differences(before, queries.stored_state(connection)) == []
    assert queries.oldest_cursor(connection) is None
    assert queries.read_meta(connection, archive.IN_PROGRESS) is None
    (leftover,) = workspace.archives.iterdir()
    (workspace.archives / ".archive-9-x.sqlite3.00.tmp").write_bytes(b"half")
    clock.advance(1)
    report = take(connection, workspace, clock, clock.now_ms())
    assert list(workspace.archives.iterdir()) == [report.path]
    assert report.path != leftover
    assert_sound(connection, workspace)


def test_a_file_that_holds_more_than_the_database_is_never_removed(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    """As after restoring a backup from before the archive was made."""
    history.run(20)
    connection.execute("VACUUM INTO ?", (str(workspace.state / "restored.sqlite3"),))
    history.run(20)
    clock.advance(60)
    report = take(connection, workspace, clock, clock.now_ms())
    assert report.path is not None
    connection.close()
    (workspace.state / "restored.sqlite3").rename(workspace.db)
    (workspace.archives / "archive-1-notes.sqlite3").write_bytes(b"not a database" * 100)
    with writing(workspace) as restored:
        again = take(restored, workspace, clock, clock.now_ms() + 1)
        assert report.path.exists()
        assert (workspace.archives / "archive-1-notes.sqlite3").exists()
        assert again.path is not None


def test_nothing_is_removed_unless_it_is_exactly_what_the_archive_holds(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    history.run(40)
    clock.advance(60)
    before = queries.stored_state(connection)
    connection.execute(
        "CREATE TRIGGER keep BEFORE DELETE ON events WHEN old.event_id = 3 BEGIN SELECT RAISE(IGNORE); END"
    )
    with pytest.raises(InternalError, match="where the archive holds"):
        take(connection, workspace, clock, clock.now_ms())
    assert differences(before, queries.stored_state(connection)) == []


def test_a_database_that_was_not_adopted_yet_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "old").mkdir()
    workspace = make_agentlip(tmp_path / "old", fts=False)
    with writing(workspace) as connection, pytest.raises(StartupFailed):
        take(connection, workspace, clock, clock.now_ms())


def test_the_check_of_the_fold_would_notice_a_wrong_selection(
    workspace: Workspace, connection: apsw.Connection, clock: ManualClock, history: History
) -> None:
    """A control: without it, a fold that ignored archives would pass every test above."""
    history.run(60)
    clock.advance(60)
    take(connection, workspace, clock, clock.now_ms())
    log = [event for event in whole_log(connection, workspace) if event.name != "workspace.archived"]
    unaware: HubState = fold(log)
    assert differences(unaware, queries.stored_state(connection)) != []
