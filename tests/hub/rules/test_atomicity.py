"""Gate B: no state change without its event, no event without its state change. And gate A: the schema."""

from typing import Any

import apsw
import pytest

from parley.core.clock import ManualClock
from parley.core.errors import InternalError
from parley.core.ids import IdSource
from parley.hub.transaction import Tx
from parley.sqlite import open_reader, open_writer, run_batch
from parley.workspace.layout import Workspace
from parley.workspace.log import Draft, append_event, append_events
from parley.workspace.prepare import prepare
from tests.hub.coordination import Team
from tests.hub.hubs import OpenHub, rows, workspace_in

ENTITY_TABLES = (
    "channels",
    "topics",
    "messages",
    "topic_attachments",
    "idempotency_keys",
    "moves",
    "agents",
    "tasks",
    "leases",
)
HEADERS = {"Idempotency-Key": "k"}


async def _world(hub: OpenHub) -> dict[str, str]:
    channel = await hub.api.channel()
    one, two = await hub.api.topic(channel, "one"), await hub.api.topic(channel, "two")
    message = await hub.api.post(one, "hello")
    team = Team(hub, channel)
    task, lease = await team.task("a task"), (await team.lease("ann", "src/**"))["lease"]
    await team.claim(task["id"], "ann")
    await team.register("ann", session="s1")
    return {
        "channel": channel,
        "one": one,
        "two": two,
        "message": message["id"],
        "task": task["id"],
        "lease": lease["id"],
    }


MUTATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "create a channel": ("POST", "/api/v1/channels", {"name": "new"}),
    "create a topic": ("POST", "/api/v1/topics", {"channel_id": "{channel}", "title": "new"}),
    "rename": ("PATCH", "/api/v1/topics/{one}", {"title": "renamed"}),
    "post": ("POST", "/api/v1/messages", {"topic_id": "{one}", "sender": "ann", "content_raw": "x"}),
    "edit": ("PATCH", "/api/v1/messages/{message}", {"op": "edit", "content_raw": "https://example.org"}),
    "delete": ("PATCH", "/api/v1/messages/{message}", {"op": "delete", "actor": "ann"}),
    "move one": ("PATCH", "/api/v1/messages/{message}", {"op": "move_topic", "to_topic_id": "{two}", "mode": "one"}),
    "move all": ("PATCH", "/api/v1/messages/{message}", {"op": "move_topic", "to_topic_id": "{two}", "mode": "all"}),
    "attach": ("POST", "/api/v1/topics/{one}/attachments", {"kind": "note", "value_json": {}}),
    "register": ("POST", "/api/v1/agents", {"name": "bob"}),
    "leave": ("PATCH", "/api/v1/agents/ann", {"op": "leave"}),
    "create a task": ("POST", "/api/v1/tasks", {"title": "new", "created_by": "ann", "channel_id": "{channel}"}),
    "claim": ("PATCH", "/api/v1/tasks/{task}", {"op": "claim", "holder": "ann"}),
    "release a task": ("PATCH", "/api/v1/tasks/{task}", {"op": "release", "holder": "ann", "generation": 1}),
    "complete": ("PATCH", "/api/v1/tasks/{task}", {"op": "complete", "holder": "ann", "generation": 1}),
    "cancel": ("PATCH", "/api/v1/tasks/{task}", {"op": "cancel", "actor": "ann"}),
    "take over": (
        "PATCH",
        "/api/v1/tasks/{task}",
        {"op": "take_over", "holder": "bob", "force": True, "reason": "late"},
    ),
    "acquire": ("POST", "/api/v1/leases", {"holder": "bob", "patterns": ["docs"]}),
    "release a lease": ("PATCH", "/api/v1/leases/{lease}", {"op": "release", "holder": "ann", "generation": 1}),
}


def _everything(workspace: Workspace) -> dict[str, list[Any]]:
    return {table: rows(workspace, f"SELECT * FROM {table}") for table in (*ENTITY_TABLES, "events")}


async def _trigger(hub: OpenHub, table: str, when: str) -> None:
    sql = f"CREATE TRIGGER fault {when} ON {table} BEGIN SELECT RAISE(ABORT, 'injected'); END"
    await hub.hub.store.write(lambda tx: tx.db.execute(sql) and None)


@pytest.mark.parametrize("name", MUTATIONS)
async def test_gate_b_when_the_event_cannot_be_written_the_state_does_not_change(hub: OpenHub, name: str) -> None:
    world = await _world(hub)
    await _trigger(hub, "events", "BEFORE INSERT")
    before = _everything(hub.workspace)
    method, path, body = MUTATIONS[name]
    fields = {key: value.format(**world) if isinstance(value, str) else value for key, value in body.items()}
    refused = await hub.api.call(method, path.format(**world), fields, headers=HEADERS, status=500)
    assert refused["code"] == "INTERNAL_ERROR"
    assert _everything(hub.workspace) == before
    await hub.hub.store.write(lambda tx: tx.db.execute("DROP TRIGGER fault") and None)
    answer = await hub.api.client.request(method, path.format(**world), json=fields, headers=HEADERS)
    assert answer.status_code in (200, 201)
    assert "duplicate" not in answer.json()
    assert hub.fold_problems() == []


@pytest.mark.parametrize("name", MUTATIONS)
async def test_gate_b_when_the_key_cannot_be_written_there_is_neither_state_nor_event(hub: OpenHub, name: str) -> None:
    """The key is the last thing a mutation writes."""
    world = await _world(hub)
    await _trigger(hub, "idempotency_keys", "BEFORE INSERT")
    before = _everything(hub.workspace)
    method, path, body = MUTATIONS[name]
    fields = {key: value.format(**world) if isinstance(value, str) else value for key, value in body.items()}
    await hub.api.call(method, path.format(**world), fields, headers=HEADERS, status=500)
    assert _everything(hub.workspace) == before
    assert hub.hub.feed.latest == len(before["events"])


async def test_gate_b_a_failing_write_leaves_the_others_of_its_commit_alone(hub: OpenHub) -> None:
    """Group commit: one savepoint per write."""
    connection = open_writer(hub.workspace.db)
    ids, clock = IdSource(), ManualClock()

    def good(db: apsw.Connection, name: str) -> int:
        tx = Tx(db, clock.now_ms(), ids)
        channel = {"id": f"ch_{name}", "name": name, "description": None, "created_at": tx.ts}
        db.execute("INSERT INTO channels VALUES (?, ?, NULL, ?)", (channel["id"], name, tx.ts))
        return tx.append(Draft("channel.created", channel["id"], {"channel": channel}, channel_id=channel["id"]))

    def bad(db: apsw.Connection) -> None:
        good(db, "bad")
        raise RuntimeError("a fault of ours")

    try:
        outcomes = run_batch(connection, [lambda db: good(db, "a"), bad, lambda db: good(db, "b")])
    finally:
        connection.close()
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert [outcome.value for outcome in outcomes] == [1, None, 2]
    assert rows(hub.workspace, "SELECT name FROM channels ORDER BY name") == [("a",), ("b",)]
    assert hub.fold_problems() == []


async def test_a_rule_that_raises_something_unexpected_is_500_and_logged_without_content(hub: OpenHub) -> None:
    """An event whose scopes are not those of the catalogue is a fault of ours, and is not written."""
    wrong = Draft("message.created", "m", {"message": "secret words"}, channel_id="c")
    with pytest.raises(InternalError, match="must carry the scopes"):
        await hub.hub.store.write(lambda tx: tx.append(wrong))
    assert rows(hub.workspace, "SELECT * FROM events") == []


@pytest.mark.parametrize("name", ["message.created", "nonsense"])
def test_the_one_door_to_the_log_checks_every_event(tmp_path: Any, name: str) -> None:
    workspace = workspace_in(tmp_path)
    connection = open_writer(workspace.db)
    prepare(connection, workspace, clock=ManualClock(), fts=True)
    try:
        for append in (append_event, lambda db, ts, draft: append_events(db, ts, [draft])):
            with pytest.raises(InternalError):
                append(connection, "ts", Draft(name, "e", {}))
        assert connection.execute("SELECT count(*) FROM events").fetchall() == [(0,)]
    finally:
        connection.close()


@pytest.mark.parametrize("fts", [True, False])
def test_gate_a_the_schema_initialises_cleanly_in_an_empty_workspace(tmp_path: Any, fts: bool) -> None:
    workspace = workspace_in(tmp_path)
    connection = open_writer(workspace.db)
    prepared = prepare(connection, workspace, clock=ManualClock(), fts=fts)
    connection.close()
    reader = open_reader(workspace.db)
    try:
        assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert reader.execute("PRAGMA foreign_key_check").fetchall() == []
        tables = {name for (name,) in reader.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert {*ENTITY_TABLES, "events", "meta", "enrichments", "archives"} <= tables
        meta = {str(key): value for key, value in reader.execute("SELECT key, value FROM meta")}
        assert (meta["schema_version"], meta["parley_schema"]) == ("1", str(prepared.schema))
        assert meta["db_id"] == prepared.db_id
        assert prepared.change == "created"
        assert prepared.fts is fts
        assert ("messages_fts" in tables) is fts
    finally:
        reader.close()
