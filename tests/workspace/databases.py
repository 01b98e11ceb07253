"""Databases for the tests: a new one of ours, and one as Agentlip leaves it behind."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from parley.core.clock import ManualClock, iso
from parley.sqlite import open_writer, split_statements
from parley.workspace import discovery
from parley.workspace.layout import Workspace
from parley.workspace.prepare import Prepared, prepare

START_MS = 1_767_225_600_000
AGENTLIP_DB_ID = "6f1c2a34-9a52-4f0e-8f43-2d6cf5a1b001"
AGENTLIP_SCHEMA = (Path(__file__).parent / "agentlip_v1.sql").read_text(encoding="utf-8")
AGENTLIP_FTS = (Path(__file__).parent / "agentlip_v1_fts.sql").read_text(encoding="utf-8")


def new_workspace(root: Path) -> Workspace:
    """The folders of a workspace, without a database."""
    return discovery.create(root)


@contextmanager
def writing(workspace: Workspace) -> Iterator[apsw.Connection]:
    """The writer's connection."""
    connection = open_writer(workspace.db)
    try:
        yield connection
    finally:
        connection.close()


def prepared(connection: apsw.Connection, workspace: Workspace, *, fts: bool = True, **options: Any) -> Prepared:
    """Prepares the database on a clock that stands still."""
    return prepare(connection, workspace, clock=ManualClock(START_MS), fts=fts, **options)


def run_script(connection: apsw.Connection, text: str) -> None:
    for statement in split_statements(text):
        connection.execute(statement)


def add_channel(connection: apsw.Connection, channel_id: str = "ch_1", name: str = "general") -> str:
    connection.execute("INSERT INTO channels VALUES (?, ?, NULL, ?)", (channel_id, name, iso(START_MS)))
    return channel_id


def add_topic(
    connection: apsw.Connection, topic_id: str = "topic_1", channel_id: str = "ch_1", updated_ms: int = START_MS
) -> str:
    connection.execute(
        "INSERT INTO topics VALUES (?, ?, ?, ?, ?)", (topic_id, channel_id, topic_id, iso(START_MS), iso(updated_ms))
    )
    return topic_id


def add_message(
    connection: apsw.Connection,
    message_id: str,
    content: str = "hello",
    *,
    topic_id: str = "topic_1",
    channel_id: str = "ch_1",
) -> str:
    connection.execute(
        "INSERT INTO messages (id, topic_id, channel_id, sender, content_raw, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (message_id, topic_id, channel_id, "ann", content, iso(START_MS)),
    )
    return message_id


def add_event(
    connection: apsw.Connection,
    name: str = "message.created",
    *,
    channel: str | None = None,
    topic: str | None = None,
    topic2: str | None = None,
    data: str = "{}",
) -> int:
    connection.execute(
        "INSERT INTO events (ts, name, scope_channel_id, scope_topic_id, scope_topic_id2, entity_type, entity_id,"
        " data_json) VALUES (?, ?, ?, ?, ?, 'message', 'msg_1', ?)",
        (iso(START_MS), name, channel, topic, topic2, data),
    )
    return connection.last_insert_rowid()


def make_agentlip(root: Path, *, fts: bool, messages: int = 40, seed: int = 1) -> Workspace:
    """An ``.agentlip`` folder as its hub leaves it: ids random within a millisecond, UUIDs for enrichments."""
    state = root / ".agentlip"
    (state / "locks").mkdir(parents=True)
    connection = apsw.Connection(str(state / "db.sqlite3"))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    run_script(connection, AGENTLIP_SCHEMA)
    if fts:
        run_script(connection, AGENTLIP_FTS)
    with connection:
        _fill_agentlip(connection, messages, random.Random(seed))
    connection.close()
    return Workspace(root, state)


def _fill_agentlip(connection: apsw.Connection, messages: int, rng: random.Random) -> None:
    ts = iso(START_MS)
    for key, value in (("db_id", AGENTLIP_DB_ID), ("schema_version", "1"), ("created_at", ts)):
        connection.execute("INSERT INTO meta VALUES (?, ?)", (key, value))

    def new_id(prefix: str) -> str:
        return f"{prefix}mjugxxxx{''.join(rng.choices('0123456789abcdefghijklmnopqrstuvwxyz', k=8))}"

    def log(name: str, kind: str, entity: str, data: dict[str, Any], topic: str | None) -> None:
        connection.execute(
            "INSERT INTO events (ts, name, scope_channel_id, scope_topic_id, entity_type, entity_id, data_json)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (ts, name, channel, topic, kind, entity, json.dumps(data, separators=(",", ":"), ensure_ascii=False)),
        )

    channel, topic, other = new_id("ch_"), new_id("topic_"), new_id("topic_")
    connection.execute("INSERT INTO channels VALUES (?, 'général', NULL, ?)", (channel, ts))
    log("channel.created", "channel", channel, {"channel": {"id": channel, "name": "général"}}, None)
    for topic_id, title in ((topic, "plans"), (other, "naïve ☕")):
        connection.execute("INSERT INTO topics VALUES (?, ?, ?, ?, ?)", (topic_id, channel, title, ts, ts))
        log("topic.created", "topic", topic_id, {"topic": {"id": topic_id, "title": title}}, topic_id)
    for number in range(messages):
        message, where = new_id("msg_"), rng.choice((topic, other))
        content = f"note {number} with “quotes”, \t tabs and https://example.org/{number}"
        connection.execute(
            "INSERT INTO messages (id, topic_id, channel_id, sender, content_raw, created_at)"
            " VALUES (?, ?, ?, 'bot', ?, ?)",
            (message, where, channel, content, ts),
        )
        log("message.created", "message", message, {"message": {"id": message, "content_raw": content}}, where)
        if number % 7 == 0:
            connection.execute(
                "UPDATE messages SET content_raw = '[deleted]', deleted_at = ?, deleted_by = 'x', edited_at = ?,"
                " version = 2 WHERE id = ?",
                (ts, ts, message),
            )
        if number % 5 == 0:
            value = json.dumps({"url": f"https://example.org/{number}", "b": 1, "a": 2})
            connection.execute(
                "INSERT INTO topic_attachments VALUES (?, ?, 'url', NULL, ?, ?, ?, ?)",
                (new_id("att_"), where, value, f"https://example.org/{number}", message, ts),
            )
            connection.execute(
                "INSERT INTO enrichments VALUES (?, ?, 'link', 0, 4, ?, ?)",
                (f"{number:08d}-0000-4000-8000-000000000000", message, '{ "spaced" : true }', ts),
            )


def dump(connection: apsw.Connection, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
    return connection.execute(statement, parameters).fetchall()


def shape(connection: apsw.Connection) -> dict[str, str]:
    """The schema as text without the accidents of how it came about: spaces, quotes and IF NOT EXISTS."""
    rows = dump(connection, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {
        f"{kind} {name}": " ".join(sql.replace('"', "").replace("IF NOT EXISTS ", "").split())
        for kind, name, sql in rows
    }
