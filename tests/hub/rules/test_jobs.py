"""Jobs as rules: when a row is written and when it goes, which results are stored, and what the log tells of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from parley.core.clock import ManualClock, iso
from parley.core.fold import differences, fold
from parley.core.settings import UrlSettings
from parley.hub.rules.attachments import check_attachment
from parley.hub.rules.jobs import (
    PROBLEM_CHARS_MAX,
    WAIT_MS_MAX,
    Backlog,
    Queue,
    backlog,
    drop_jobs_of_others,
    next_due_ms,
    plugins_with_jobs,
    queue_history,
    store_attachments,
    store_enrichments,
)
from parley.hub.rules.messages import create_message, edit_message
from parley.hub.transaction import Tx
from parley.sqlite import open_writer, run_batch
from parley.wire.entities import Span
from parley.wire.events import Enrichment
from parley.wire.requests import (
    AddAttachment,
    CreateMessage,
    EditMessage,
)
from parley.workspace import queries
from parley.workspace.prepare import prepare
from tests.hub.histories import History
from tests.hub.hubs import workspace_in
from tests.hub.rules.job_world import FOUND, LINKS, NAMES, RETRY_MS, SETTLE_MS, World

OTHER = [Enrichment("link", Span(0, 3), {"n": 1}), Enrichment("mark", Span(1, 2), {})]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    workspace, clock = workspace_in(tmp_path), ManualClock()
    connection = open_writer(workspace.db)
    prepare(connection, workspace, clock=clock, fts=False)
    yield World(connection, clock)
    assert differences(fold(queries.logged_events(connection)), queries.stored_state(connection)) == []
    connection.close()


def test_a_post_writes_one_job_for_each_plugin_due_at_once(world: World) -> None:
    message = world.post(queue=NAMES)
    assert world.jobs() == [(message, plugin, "waiting", 0, 0, None) for plugin in ("links", "names")]
    assert [job.message.id for job in world.take()] == [message]


def test_without_plugins_there_are_no_jobs(world: World) -> None:
    message = world.post(queue=Queue())
    world.edit(message, queue=Queue())
    assert world.jobs() == []


def test_a_transaction_that_is_rolled_back_leaves_neither_message_nor_job(world: World) -> None:
    def post_and_fail(tx: Tx) -> None:
        create_message(tx, CreateMessage(world.topics[0], "ann", "x"), UrlSettings(), queue=LINKS)
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        world.do(post_and_fail)
    assert (world.jobs(), world.events("message.created")) == ([], [])


def test_an_edit_waits_until_it_has_settled_and_a_burst_leaves_one_job(world: World) -> None:
    message = world.post()
    assert world.enrich(world.take()[0]) == "stored"
    for number in range(10):
        world.edit(message, f"edit {number}")
        world.clock.advance(0.01)
    assert world.jobs() == [(message, "links", "waiting", 0, SETTLE_MS - 100, None)]
    assert world.take() == []
    world.clock.advance(SETTLE_MS / 1000)
    (job,) = world.take()
    assert (job.message.content_raw, job.message.version) == ("edit 9", 11)


def test_an_edit_of_a_message_that_waits_changes_nothing_and_the_run_reads_the_newest_version(world: World) -> None:
    message = world.post()
    before = world.jobs()
    world.edit(message)
    assert world.jobs() == before
    assert world.take()[0].message.version == 2


def test_a_job_is_done_with_the_results_and_one_event_tells_of_them(world: World) -> None:
    message = world.post()
    assert world.enrich(world.take()[0], OTHER) == "stored"
    assert world.jobs() == []
    (event,) = world.events("message.enriched")
    assert (event.data["message_id"], event.data["plugin_name"], event.data["version"]) == (message, "links", 1)
    assert len(event.data["enrichment_ids"]) == len(event.data["enrichments"]) == 2
    assert world.enrichments() == [
        (message, "links", "link", 0, 3, '{"n":1}', 0),
        (message, "links", "mark", 1, 2, "{}", 0),
    ]


def test_results_replace_those_of_the_older_version_and_of_no_other_plugin(world: World) -> None:
    message = world.post(queue=NAMES)
    world.enrich(world.take("links")[0])
    world.enrich(world.take("names")[0])
    world.edit(message, queue=NAMES)
    assert [row[-1] for row in world.enrichments()] == [1, 1]
    world.clock.advance(1)
    world.enrich(world.take("links")[0], OTHER)
    assert [(row[1], row[2], row[-1]) for row in world.enrichments()] == [
        ("links", "link", 0),
        ("links", "mark", 0),
        ("names", "link", 1),
    ]


def test_finding_nothing_where_nothing_was_is_no_event(world: World) -> None:
    world.post()
    assert world.enrich(world.take()[0], []) == "stored"
    assert (world.events("message.enriched"), world.jobs()) == ([], [])


def test_finding_nothing_where_something_was_is_an_event_with_an_empty_set(world: World) -> None:
    message = world.post()
    world.enrich(world.take()[0])
    world.edit(message)
    world.clock.advance(1)
    world.enrich(world.take()[0], [])
    assert [len(event.data["enrichments"]) for event in world.events("message.enriched")] == [1, 0]
    assert world.enrichments() == []


def test_finding_the_same_again_in_the_same_version_is_no_event(world: World) -> None:
    message = world.post()
    world.enrich(world.take()[0], OTHER)
    assert world.do(lambda tx: queue_history(tx, ["links"], 0, 1_000)) == 1
    assert world.enrich(world.take()[0], OTHER[::-1]) == "stored"
    assert len(world.events("message.enriched")) == 1
    assert [row[-1] for row in world.enrichments()] == [0, 0]
    assert message not in str(world.jobs())


def test_part_x_aba_an_edit_back_to_the_first_content_is_another_version(world: World) -> None:
    message = world.post("A")
    (job,) = world.take()
    world.edit(message, "B")
    world.edit(message, "A")
    assert world.enrich(job) == "stale"
    assert (world.enrichments(), world.events("message.enriched")) == ([], [])
    world.clock.advance(1)
    (again,) = world.take()
    assert (again.message.content_raw, again.message.version) == ("A", 3)
    assert world.enrich(again) == "stored"
    assert world.events("message.enriched")[0].data["version"] == 3


@pytest.mark.parametrize("change", ["edit", "move"])
def test_part_x_a_change_between_the_run_and_its_commit_makes_the_result_stale(world: World, change: str) -> None:
    """Enrichments, attachments and failures alike: none is stored, none counted, and the job stays."""
    message = world.post()
    (job,) = world.take()
    getattr(world, change)(message)
    for finish in (world.enrich, lambda job: world.extract(job, {"path": "a"}), world.fail):
        assert finish(job) == "stale"
    assert world.jobs() == [(message, "links", "waiting", 0, SETTLE_MS, None)]
    assert (world.enrichments(), world.events("message.enriched", "topic.attachment_added")) == ([], [])


def test_edits_during_a_run_cost_one_more_run_after_they_have_settled(world: World) -> None:
    message = world.post()
    (job,) = world.take()
    for number in range(3):
        world.edit(message, f"{number}")
    assert world.enrich(job) == "stale"
    assert world.take() == []
    assert next_due_ms(world.connection, "links", world.clock.now_ms()) == world.clock.now_ms() + SETTLE_MS
    world.clock.advance(SETTLE_MS / 1000)
    assert world.enrich(world.take()[0]) == "stored"
    assert world.jobs() == []


def test_part_x_toc_tou_the_version_is_looked_at_in_the_transaction_that_stores(world: World) -> None:
    """An edit and the commit of a run share one group commit: the run sees what the edit before it did."""
    message = world.post()
    (job,) = world.take()
    edit = EditMessage("changed in the same commit")

    def in_tx(rule: Callable[[Tx], Any]) -> Callable[[apsw.Connection], Any]:
        return lambda db: rule(Tx(db, world.clock.now_ms(), world.ids))

    outcomes = run_batch(
        world.connection,
        [
            in_tx(lambda tx: edit_message(tx, message, edit, UrlSettings(), queue=LINKS)),
            in_tx(lambda tx: store_enrichments(tx, job, FOUND, SETTLE_MS)),
        ],
    )
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert outcomes[1].value == "stale"
    assert world.enrichments() == []


def test_a_move_writes_no_job_and_what_is_done_stays_done(world: World) -> None:
    message = world.post()
    world.enrich(world.take()[0])
    world.move(message)
    assert world.jobs() == []
    assert [row[-1] for row in world.enrichments()] == [0]


def test_part_x_a_delete_ends_waiting_failed_and_running_jobs(world: World) -> None:
    waiting, failed, running = world.post(), world.post(), world.post()
    jobs = {job.message.id: job for job in world.take()}
    world.fail(jobs[failed], attempts_max=1)
    for message in (waiting, failed, running):
        world.delete(message)
    assert world.jobs() == []
    assert world.enrich(jobs[running]) == "gone"
    assert world.extract(jobs[running], {"path": "a"}) == "gone"
    assert world.fail(jobs[running]) == "gone"
    assert (world.enrichments(), world.jobs()) == ([], [])
    assert world.events("message.enriched", "topic.attachment_added") == []


def test_a_delete_hides_what_was_found(world: World) -> None:
    message = world.post()
    world.enrich(world.take()[0])
    world.delete(message)
    assert [row[-1] for row in world.enrichments()] == [1]
    assert queries.list_enrichments(world.connection, [message]) == []


def test_a_run_that_ends_late_takes_no_job_that_got_its_row_since(world: World) -> None:
    """SQLite gives the number of a deleted row to the next one."""
    message = world.post()
    (job,) = world.take()
    world.delete(message)
    newer = world.post()
    assert world.enrich(job) == "gone"
    assert world.fail(job) == "gone"
    assert [row[:4] for row in world.jobs()] == [(newer, "links", "waiting", 0)]


def test_attachments_are_added_once_with_one_event_whoever_finds_them(world: World) -> None:
    message = world.post(queue=NAMES)
    assert world.extract(world.take("links")[0], {"path": "a"}, {"path": "a"}, {"path": "b"}) == "stored"
    assert world.extract(world.take("names")[0], {"path": "b"}, {"path": "a"}) == "stored"
    assert world.jobs() == []
    events = world.events("topic.attachment_added")
    assert [event.data["attachment"]["value_json"]["path"] for event in events] == ["a", "b"]
    assert {event.data["attachment"]["source_message_id"] for event in events} == {message}


def test_part_x_external_state_change_what_was_attached_stays_as_it_was(world: World) -> None:
    """A page has another title today: the same dedupe key is the same attachment, and nothing is written."""
    world.post()
    for title in ("Old title", "New title"):
        request = AddAttachment("url", {"url": "https://example.org/", "title": title}, dedupe_key="the page")
        texts = [(request, check_attachment(request, 16_384))]
        (job,) = world.take()
        assert world.do(lambda tx, job=job, texts=texts: store_attachments(tx, job, texts)) == "stored"
        assert world.do(lambda tx: queue_history(tx, ["links"], 0, 1_000)) == 1
    (event,) = world.events("topic.attachment_added")
    assert event.data["attachment"]["value_json"]["title"] == "Old title"


def test_attachments_go_to_the_topic_in_which_the_message_is_now(world: World) -> None:
    message = world.post()
    world.move(message)
    world.extract(world.take()[0], {"path": "a"})
    (event,) = world.events("topic.attachment_added")
    assert event.data["attachment"]["topic_id"] == world.topics[1]


def test_failures_are_counted_with_growing_waits_and_the_last_one_stays_with_its_reason(world: World) -> None:
    message = world.post()
    for attempt, wait_ms in ((1, RETRY_MS), (2, 2 * RETRY_MS)):
        assert world.fail(world.take()[0], f"reason {attempt}") == "failed"
        assert world.jobs() == [(message, "links", "waiting", attempt, wait_ms, f"reason {attempt}")]
        assert world.take() == []
        world.clock.advance(wait_ms / 1000)
    assert world.fail(world.take()[0], "the last reason") == "failed"
    world.clock.advance(WAIT_MS_MAX)
    assert [row[:4] for row in world.jobs()] == [(message, "links", "failed", 3)]
    assert (world.take(), next_due_ms(world.connection, "links", 0)) == ([], None)


def test_no_wait_is_longer_than_the_longest_and_no_reason_larger_than_its_room(world: World) -> None:
    world.post()
    world.do(lambda tx: tx.db.execute("UPDATE jobs SET attempts = 80"))
    world.fail(world.take()[0], "x" * 10_000, attempts_max=100)
    (row,) = world.jobs()
    assert (row[3], row[4], len(row[5])) == (81, WAIT_MS_MAX, PROBLEM_CHARS_MAX)


@pytest.mark.parametrize("state", ["waiting", "failed"])
def test_an_edit_gives_a_job_that_failed_all_its_attempts_again(world: World, state: str) -> None:
    message = world.post()
    world.fail(world.take()[0], attempts_max=1 if state == "failed" else 3)
    assert world.jobs()[0][2] == state
    world.edit(message)
    assert world.jobs() == [(message, "links", "waiting", 0, SETTLE_MS, None)]


def test_re_enrich_queues_what_is_done_and_what_failed_and_counts_only_those(world: World) -> None:
    done, failed, waiting, deleted = (world.post() for _ in range(4))
    jobs = {job.message.id: job for job in world.take()}
    world.enrich(jobs[done])
    world.fail(jobs[failed], attempts_max=1)
    world.delete(deleted)
    latest = queries.latest_event_id(world.connection)
    assert world.do(lambda tx: queue_history(tx, ["links"], 0, latest)) == 2
    assert sorted(world.jobs()) == sorted((each, "links", "waiting", 0, 0, None) for each in (done, failed, waiting))
    assert world.do(lambda tx: queue_history(tx, ["links"], 0, latest)) == 0


def test_a_failure_of_a_run_that_began_before_re_enrich_is_the_first_of_the_new_ones(world: World) -> None:
    message = world.post()
    world.fail(world.take()[0], attempts_max=2)
    world.clock.advance(RETRY_MS / 1000)
    (job,) = world.take()
    assert world.do(lambda tx: queue_history(tx, ["links"], 0, 1_000)) == 1
    assert world.fail(job, attempts_max=2) == "failed"
    assert world.jobs() == [(message, "links", "waiting", 1, RETRY_MS, "no")]


def test_re_enrich_takes_what_events_in_its_range_posted_or_edited_once_per_plugin(world: World) -> None:
    early, edited, late = (world.post(queue=Queue()) for _ in range(3))
    boundary = queries.latest_event_id(world.connection)
    world.edit(edited, queue=Queue())
    world.edit(edited, queue=Queue())
    world.move(early)
    newest = world.post(queue=Queue())
    latest = queries.latest_event_id(world.connection)
    assert world.do(lambda tx: queue_history(tx, ["links", "names"], boundary, latest)) == 4
    assert {row[0] for row in world.jobs()} == {edited, newest}
    assert world.do(lambda tx: queue_history(tx, ["links"], boundary - 1, boundary)) == 1
    assert {row[0] for row in world.jobs()} == {edited, newest, late}


def test_jobs_of_plugins_that_are_not_configured_any_more_are_dropped(world: World) -> None:
    message = world.post(queue=NAMES)
    assert plugins_with_jobs(world.connection) == ["links", "names"]
    assert world.do(lambda tx: drop_jobs_of_others(tx, ["names", "new"])) == 1
    assert [row[:2] for row in world.jobs()] == [(message, "names")]
    assert world.do(lambda tx: drop_jobs_of_others(tx, [])) == 1
    assert plugins_with_jobs(world.connection) == []


def test_jobs_are_taken_in_the_order_in_which_they_became_due(world: World) -> None:
    first = world.post()
    world.fail(world.take()[0])
    second, third = world.post(), world.post()
    world.clock.advance(RETRY_MS / 1000)
    assert [job.message.id for job in world.take()] == [second, third, first]
    assert [job.message.id for job in world.take(limit=2)] == [second, third]


def test_part_x_a_clock_set_back_holds_up_nothing_for_longer_than_the_longest_wait(world: World) -> None:
    before = [world.post() for _ in range(2)]
    world.clock.advance(1)
    before.append(world.post())
    world.clock.jump(-10 * WAIT_MS_MAX)
    assert [job.message.id for job in world.take()] == before[:2]
    after = world.post()
    assert [job.message.id for job in world.take()] == [after]
    for expected in ([after], before[:2], before[2:]):
        taken = world.take()
        assert [job.message.id for job in taken] == expected
        for job in taken:
            world.enrich(job)
    assert world.jobs() == []


def test_the_backlog_counts_what_waits_and_what_failed_and_the_age_of_the_oldest(world: World) -> None:
    assert backlog(world.connection, "links", world.clock.now_ms()) == Backlog(0, 0, 0.0)
    world.post()
    world.fail(world.take()[0])  # queued first, and due last
    world.clock.advance(0.5)
    world.post()
    failed = world.post()
    world.fail(next(job for job in world.take() if job.message.id == failed), attempts_max=1)
    world.clock.advance(2)
    now_ms = world.clock.now_ms()
    assert backlog(world.connection, "links", now_ms) == Backlog(2, 1, 2.5)
    assert backlog(world.connection, "names", now_ms) == Backlog(0, 0, 0.0)
    assert backlog(world.connection, "links", now_ms - 60_000).oldest_waiting_seconds == 0.0


def test_a_long_queue_is_counted_and_taken_from_in_the_order_of_its_index(world: World) -> None:
    asked: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        asked.append(statement)
        return True

    world.post()
    world.connection.exec_trace = note
    backlog(world.connection, "links", world.clock.now_ms())
    assert len(world.take()) == 1
    world.connection.exec_trace = None
    plans = [
        [
            str(row[3])
            for row in world.connection.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * statement.count("?"))
        ]
        for statement in asked
    ]
    assert len(plans) == 4
    assert all("INDEX idx_jobs_state" in plan[0] or "INDEX idx_jobs_state" in plan[1] for plan in plans), plans
    assert sum("COVERING INDEX idx_jobs_state" in step for plan in plans for step in plan) == 3
    assert not [step for plan in plans for step in plan if "TEMP B-TREE" in step], plans


def test_times_of_what_was_stored_are_those_of_its_event(world: World) -> None:
    world.post()
    world.clock.advance(5)
    world.enrich(world.take()[0])
    rows = world.connection.execute("SELECT created_at FROM enrichments").fetchall()
    assert rows == [(iso(world.clock.now_ms()),)] == [(world.events("message.enriched")[0].ts,)]


@pytest.mark.parametrize("seed", range(6))
def test_after_random_histories_the_folded_log_is_the_tables_and_every_job_is_of_a_live_message(
    tmp_path: Path, seed: int
) -> None:
    workspace, clock = workspace_in(tmp_path), ManualClock()
    connection = open_writer(workspace.db)
    try:
        prepare(connection, workspace, clock=clock, fts=False)
        history = History(connection, seed, clock)
        history.run(250)
        assert differences(fold(queries.logged_events(connection)), queries.stored_state(connection)) == []
        dead = "SELECT 1 FROM jobs JOIN messages AS m ON m.id = message_id WHERE m.deleted_at IS NOT NULL"
        assert connection.execute(dead).fetchall() == []
        assert connection.execute("SELECT 1 FROM enrichments").fetchall()
        _work_off(connection, history, clock)
        assert connection.execute("SELECT count(*) FROM jobs WHERE state = 'waiting'").fetchall() == [(0,)]
        assert differences(fold(queries.logged_events(connection)), queries.stored_state(connection)) == []
        hidden = (
            "SELECT m.id FROM enrichments AS e JOIN messages AS m ON m.id = e.message_id WHERE e.outdated = 1"
            " AND m.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.message_id = m.id)"
        )
        assert connection.execute(hidden).fetchall() == [], "what is outdated is replaced, or its job has failed"
    finally:
        connection.close()


def _work_off(connection: apsw.Connection, history: History, clock: ManualClock) -> None:
    while connection.execute("SELECT 1 FROM jobs WHERE state = 'waiting'").fetchone() or history.under_way:
        clock.advance(60)
        history.finish_job()
