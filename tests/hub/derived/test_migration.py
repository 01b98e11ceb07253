"""Files from before there were jobs: whose an enrichment is, and whether it is still true, is read from the log."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from parley.core.clock import iso
from parley.core.fold import fold
from parley.workspace import queries
from tests.workspace.databases import START_MS, dump, make_agentlip, new_workspace, prepared, run_script, writing

V1 = Path(__file__).parents[2] / "fixtures" / "schema" / "v1.sql"


def marks(connection: apsw.Connection) -> dict[str, tuple[str, int]]:
    return {row[0]: (row[1], row[2]) for row in dump(connection, "SELECT id, plugin_name, outdated FROM enrichments")}


def test_enrichments_of_the_first_schema_get_the_plugin_and_the_mark_that_their_log_gives_them(tmp_path: Path) -> None:
    workspace = new_workspace(tmp_path)
    with writing(workspace) as connection:
        run_script(connection, V1.read_text(encoding="utf-8"))
        assert prepared(connection, workspace).change == "migrated"
        folded = fold(queries.logged_events(connection)).enrichments
        expected = {each: (row["plugin_name"], row["outdated"]) for each, row in folded.items()}
        assert marks(connection) == expected != {}
        assert {name for name, _ in expected.values()} <= {"links", "names"}
        assert dump(connection, "SELECT * FROM jobs") == []


@pytest.mark.parametrize(("later", "outdated"), [(None, 0), ("message.edited", 1), ("message.moved_topic", 0)])
def test_an_adopted_enrichment_gets_its_plugin_from_the_log_and_is_outdated_only_by_a_later_edit(
    tmp_path: Path, later: str | None, outdated: int
) -> None:
    workspace = make_agentlip(tmp_path, fts=False)
    connection = apsw.Connection(str(workspace.db))
    live = dump(
        connection,
        "SELECT e.id, m.id FROM enrichments AS e JOIN messages AS m ON m.id = e.message_id"
        " WHERE m.deleted_at IS NULL ORDER BY e.id",
    )
    (told, message), (untold, _) = live[:2]
    _log(connection, "message.edited", message, {"message_id": message})
    enriched = {"message_id": message, "plugin_name": "linkify", "enrichments": [], "enrichment_ids": [told]}
    _log(connection, "message.enriched", message, enriched)
    if later is not None:
        _log(connection, later, message, {"message_id": message})
    connection.close()
    with writing(workspace) as connection:
        prepared(connection, workspace, fts=False)
        found = marks(connection)
        assert found[told] == ("linkify", outdated)
        assert found[untold] == ("", 0), "its log says nothing about it"
        shown = queries.list_enrichments(connection, [message])
        assert [each.id for each in shown] == ([] if outdated else [told])


def _log(connection: apsw.Connection, name: str, message_id: str, data: dict[str, Any]) -> None:
    connection.execute(
        "INSERT INTO events (ts, name, scope_channel_id, scope_topic_id, entity_type, entity_id, data_json)"
        " SELECT ?, ?, channel_id, topic_id, 'message', id, ? FROM messages WHERE id = ?",
        (iso(START_MS), name, json.dumps(data), message_id),
    )
