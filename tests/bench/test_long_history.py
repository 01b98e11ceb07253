"""The history that the pipeline is measured on is one that a hub could have left behind."""

from pathlib import Path

from bench.load.long_history import TOPICS, LongHistory
from tests.hub.hubs import fold_problems, rows


def test_the_tables_of_a_made_history_equal_the_fold_of_its_log(tmp_path: Path) -> None:
    history = LongHistory(tmp_path, events_planned=6_000)
    before = history.events
    assert before >= 1 + TOPICS
    history.extend(5_000)
    history.extend(1_000)
    history.close()
    assert history.events == before + 6_000
    assert fold_problems(history.workspace) == []
    counted = dict(rows(history.workspace, "SELECT name, count(*) FROM events GROUP BY name"))
    assert counted["message.created"] == 300 * 11
    assert counted["message.edited"] == 300 * 4
    assert rows(history.workspace, "SELECT count(*) FROM messages WHERE version > 1")[0][0] > 0
    (days,) = rows(history.workspace, "SELECT count(DISTINCT substr(ts, 1, 10)) FROM events")
    assert days[0] >= 28
