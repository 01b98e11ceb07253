"""The judge of the campaigns sees each kind of harm, and a campaign whose control was not caught does not pass."""

import random
from pathlib import Path

import apsw
import pytest

from tests.campaign.judge import judge
from tests.campaign.report import Report
from tests.campaign.rules_workload import RulesWorkload

REPEAT = (
    "INSERT INTO events (ts, name, entity_type, entity_id, data_json)"
    " SELECT ts, name, entity_type, entity_id, data_json FROM events WHERE name = 'message.created' LIMIT 1"
)


@pytest.fixture
def worked(tmp_path: Path) -> tuple[RulesWorkload, apsw.Connection]:
    """A workload that ran to its end on a sound disk, and its database."""
    workload = RulesWorkload(random.Random(3), batches=12)
    path = tmp_path / "db.sqlite3"
    workload.setup(path, "unix")
    while workload.step():
        pass
    workload.close()
    connection = apsw.Connection(str(path))
    for trigger in ("prevent_event_delete", "prevent_message_delete", "prevent_event_mutation"):
        connection.execute(f"DROP TRIGGER {trigger}")
    return workload, connection


def test_a_sound_database_has_no_problem(worked: tuple[RulesWorkload, apsw.Connection]) -> None:
    workload, connection = worked
    assert len(workload.acks) > 15
    assert judge(connection, workload.acks) == []


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (
            "DELETE FROM events WHERE event_id = (SELECT max(event_id) FROM events WHERE name = 'message.created')",
            "lost",
        ),
        ("DELETE FROM messages WHERE seq = (SELECT max(seq) FROM messages)", "disagree"),
        ("UPDATE messages SET content_raw = 'other' WHERE deleted_at IS NULL", "disagree"),
        ("UPDATE topics SET updated_at = '2000-01-01T00:00:00.000Z'", "disagree"),
        ("UPDATE events SET name = 'topic.renamed' WHERE name = 'message.edited'", "another event"),
        (REPEAT, "took effect 2 times"),
        ("UPDATE messages SET topic_id = 'topic_none'", "refers to nothing"),
    ],
)
def test_each_kind_of_harm_is_found(worked: tuple[RulesWorkload, apsw.Connection], harm: str, words: str) -> None:
    workload, connection = worked
    connection.execute(harm)
    assert any(words in problem for problem in judge(connection, workload.acks))


def test_a_campaign_passes_only_with_runs_without_violations_and_with_its_control_caught() -> None:
    assert Report("x", 1, runs=1, control=["caught"]).passed
    assert not Report("x", 1, runs=0, control=["caught"]).passed
    assert not Report("x", 1, runs=1).passed
    assert not Report("x", 1, runs=1, control=["caught"], violations=["lost"]).passed
