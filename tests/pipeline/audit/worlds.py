"""Hubs to be audited: one with everything in it, made by a real hub, and copies of it with histories of their own."""

import asyncio
import shutil
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from parley.core.clock import ManualClock, iso, parse_iso
from parley.core.ids import IdSource
from parley.core.settings import UrlSettings
from parley.hub.archive import archive_before
from parley.hub.rules.messages import create_message
from parley.hub.transaction import Tx
from parley.pipeline.hubs import HubRef, hub_of_workspace
from parley.wire.requests import CreateMessage
from parley.workspace import discovery, queries
from parley.workspace.fts import index_new
from parley.workspace.layout import Workspace
from parley.workspace.log import Draft, append_event
from tests.hub.histories import History
from tests.hub.hubs import open_hub
from tests.workspace.databases import AGENTLIP_SCHEMA, START_MS, new_workspace, prepared, run_script, writing

PLAIN = "a plain word"
SCHEMAS = Path(__file__).parents[2] / "fixtures" / "schema"
AGENTLIP_COLUMNS = {
    "channels": "id, name, description, created_at",
    "topics": "id, channel_id, title, created_at, updated_at",
    "messages": (
        "id, topic_id, channel_id, sender, content_raw, version, created_at, edited_at, deleted_at, deleted_by"
    ),
    "topic_attachments": "id, topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at",
    "events": (
        "event_id, ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id, data_json"
    ),
}


def make_model(root: Path) -> Workspace:
    """A workspace that a hub served over HTTP, where the writes carried keys, and in which all kinds of things happen
    afterwards by the hub's own rules. Its log holds a plugin's failure in the middle and one at the end: events that
    tell of no row."""
    workspace = asyncio.run(_talk(root))
    with writing(workspace) as connection:
        history = History(connection, 11, ManualClock(START_MS))
        history.run(60)
        _fail(connection, "first")
        history.run(60)
        _post(connection)
        _fail(connection, "last")
        index_new(connection)
    return workspace


async def _talk(root: Path) -> Workspace:
    async with open_hub(root, clock=ManualClock(START_MS)) as opened:
        api = opened.api

        async def keyed(method: str, path: str, key: str, body: dict[str, Any], status: int = 200) -> Any:
            return await api.call(method, path, body, status=status, headers={"Idempotency-Key": key})

        channel = (await keyed("POST", "/api/v1/channels", "key-channel", {"name": "work"}, 201))["channel"]["id"]
        topics: list[str] = []
        for title in ("one", "two"):
            body = {"channel_id": channel, "title": title}
            topics.append((await keyed("POST", "/api/v1/topics", f"key-{title}", body, 201))["topic"]["id"])
        task = {"title": "do it", "created_by": "ann", "topic_id": topics[0]}
        task_id = (await keyed("POST", "/api/v1/tasks", "key-task", task, 201))["task"]["id"]
        said: list[str] = []
        for number, place in enumerate((topics[0], topics[1], task_id)):
            body = {"topic_id": place, "sender": "ann", "content_raw": f"naïve ☕ {number}"}
            body |= {"reply_to": said[-1]} if said else {}
            message = await keyed("POST", "/api/v1/messages", f"key-message-{number}", body, 201)
            said.append(message["message"]["id"])
        path = f"/api/v1/messages/{said[0]}"
        await keyed("PATCH", path, "key-edit", {"op": "edit", "content_raw": "better"})
        await keyed("PATCH", path, "key-move", {"op": "move_topic", "to_topic_id": topics[1], "mode": "all"})
        await keyed("PATCH", f"/api/v1/messages/{said[1]}", "key-delete", {"op": "delete", "actor": "ann"})
        found = {"kind": "file", "value_json": {"path": "a.py"}}
        await keyed("POST", f"/api/v1/topics/{topics[0]}/attachments", "key-attachment", found, 201)
        return opened.workspace


def _post(connection: apsw.Connection) -> None:
    """A message to which nothing happens any more."""
    topic: Any = connection.execute("SELECT min(id) FROM topics").fetchone()
    with connection:
        tx = Tx(connection, START_MS, IdSource(queries.largest_ids(connection)))
        create_message(tx, CreateMessage(topic[0], "ann", PLAIN), UrlSettings())


def _fail(connection: apsw.Connection, plugin: str) -> None:
    data = {"plugin_name": plugin, "reason": "it does not start"}
    with connection:
        append_event(connection, iso(START_MS), Draft("plugin.failed", plugin, data))


def copy_of(model: Workspace, root: Path, change: Callable[[apsw.Connection], object] | None = None) -> HubRef:
    """A workspace of its own with the model's history, changed in a way that no hub would."""
    (root / model.state.name).mkdir(parents=True)
    workspace = discovery.at(root)
    shutil.copyfile(model.db, workspace.db)
    if model.archives.is_dir():
        shutil.copytree(model.archives, workspace.archives)
    connection = apsw.Connection(str(workspace.db))
    try:
        connection.execute("PRAGMA foreign_keys=OFF").fetchall()
        connection.execute("UPDATE meta SET value = ? WHERE key = 'db_id'", (str(uuid.uuid4()),))
        if change is not None:
            for trigger in ("prevent_event_mutation", "prevent_event_delete", "prevent_message_delete"):
                connection.execute(f"DROP TRIGGER {trigger}")
            change(connection)
    finally:
        connection.close()
    return hub_of_workspace(root)


def archive(workspace: Workspace) -> None:
    """Archives the first half of what happened, and lets more happen."""
    with writing(workspace) as connection:
        half = queries.latest_event_id(connection) // 2
        (before,) = connection.execute("SELECT max(ts) FROM events WHERE event_id <= ?", (half,)).fetchall()[0]
        clock = ManualClock(START_MS + 10**9)
        archive_before(connection, workspace, before_ms=parse_iso(str(before)), now_ms=clock.now_ms())
        History(connection, 12, clock).run(30)


def adopted(root: Path) -> HubRef:
    """A workspace that Agentlip has filled and a hub has adopted."""
    (root / "source").mkdir(parents=True)
    source = new_workspace(root / "source")
    with writing(source) as connection:
        prepared(connection, source, fts=False)
        history = History(connection, 13, ManualClock(START_MS))
        for step in (history.topic, history.topic, *(history.message, history.edit, history.move, history.attach) * 4):
            step()
        history.delete()
        history.rename()
        # Agentlip knows no answers.
        connection.execute("DROP TRIGGER prevent_event_mutation")
        connection.execute("UPDATE events SET data_json = json_remove(data_json, '$.message.reply_to')")
    state = root / ".agentlip"
    (state / "locks").mkdir(parents=True)
    workspace = Workspace(root, state)
    with closing(apsw.Connection(str(workspace.db))) as connection:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        run_script(connection, AGENTLIP_SCHEMA)
        for key, value in (("db_id", str(uuid.uuid4())), ("schema_version", "1"), ("created_at", iso(START_MS))):
            connection.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
        connection.execute("ATTACH ? AS source", (str(source.db),))
        for table, columns in AGENTLIP_COLUMNS.items():
            connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM source.{table} ORDER BY rowid")
        connection.execute("DETACH source")
    with writing(workspace) as connection:
        assert prepared(connection, workspace).change == "adopted"
    return hub_of_workspace(root)


def of_schema(root: Path, version: int) -> HubRef:
    """A workspace of an older schema that no hub has opened since."""
    root.mkdir(parents=True)
    workspace = new_workspace(root)
    with writing(workspace) as connection:
        run_script(connection, (SCHEMAS / f"v{version}.sql").read_text(encoding="utf-8"))
        connection.execute("UPDATE meta SET value = ? WHERE key = 'db_id'", (str(uuid.uuid4()),))
    return hub_of_workspace(root)
