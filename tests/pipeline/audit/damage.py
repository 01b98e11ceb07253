"""Each kind of damage, as somebody with the file and a command line of SQLite would do it.

Whoever plants it has dropped the triggers that protect the log and does not keep foreign keys.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from parley.core.clock import iso
from parley.workspace import discovery
from tests.pipeline.audit.worlds import PLAIN
from tests.workspace.databases import START_MS

_FIRST = "entity_id = 'first' AND name = 'plugin.failed'"
_UNTOUCHED = f"SELECT id FROM messages WHERE content_raw = '{PLAIN}'"


class Damage(NamedTuple):
    """What is done to the database, and the checks that have to find it."""

    name: str
    plant: Callable[[apsw.Connection], object]
    checks: frozenset[str]


def say(connection: apsw.Connection, name: str, kind: str, entity: str, data: object) -> None:
    """Appends an event past the hub."""
    text = data if isinstance(data, str) else json.dumps(data)
    connection.execute(
        "INSERT INTO events (ts, name, entity_type, entity_id, data_json) VALUES (?, ?, ?, ?, ?)",
        (iso(START_MS), name, kind, entity, text),
    )


def ask(connection: apsw.Connection, question: str) -> tuple[Any, ...]:
    (row,) = connection.execute(question).fetchall()
    return row


def _run(*statements: str) -> Callable[[apsw.Connection], object]:
    def plant(connection: apsw.Connection) -> None:
        for statement in statements:
            connection.execute(statement)
            assert connection.changes() or not statement.startswith(("UPDATE", "DELETE", "INSERT")), statement

    return plant


def _about_another(connection: apsw.Connection) -> None:
    (first, second) = (row[0] for row in connection.execute("SELECT id FROM messages LIMIT 2").fetchall())
    data = {"message_id": first, "plugin_name": "p", "enrichments": [], "enrichment_ids": [], "version": 1}
    say(connection, "message.enriched", "message", str(second), data)


def _created_again(connection: apsw.Connection) -> None:
    columns = "ts, name, scope_channel_id, entity_type, entity_id, data_json"
    connection.execute(
        f"INSERT INTO events ({columns}) SELECT {columns} FROM events WHERE name = 'channel.created' LIMIT 1"
    )


def _version_jump(connection: apsw.Connection) -> None:
    message_id, version = ask(connection, "SELECT id, version FROM messages LIMIT 1")
    data = {"message_id": message_id, "old_content": "", "new_content": "x", "version": version + 2}
    say(connection, "message.edited", "message", message_id, data)


def _moved_from_elsewhere(connection: apsw.Connection) -> None:
    message_id, version, topic_id = ask(connection, "SELECT id, version, topic_id FROM messages LIMIT 1")
    (other,) = ask(connection, f"SELECT id FROM topics WHERE id <> '{topic_id}' LIMIT 1")
    data = {"message_id": message_id, "version": version + 1, "old_topic_id": other, "new_topic_id": topic_id}
    say(connection, "message.moved_topic", "message", message_id, {**data, "channel_id": "", "mode": "one"})


def _claimed_out_of_turn(connection: apsw.Connection) -> None:
    entity, text = ask(connection, "SELECT entity_id, data_json FROM events WHERE name = 'task.created' LIMIT 1")
    task = json.loads(text)["task"] | {"generation": 99}
    say(connection, "task.claimed", "task", entity, {"task": task, "actor": "eve", "previous_holder": None})


def _strayed(connection: apsw.Connection) -> None:
    connection.execute("INSERT INTO channels SELECT 'ch_other', 'other', NULL, created_at FROM channels LIMIT 1")
    channel = dict(
        zip(
            ("id", "name", "description", "created_at"),
            ask(connection, "SELECT * FROM channels WHERE id = 'ch_other'"),
            strict=True,
        )
    )
    connection.execute(
        "INSERT INTO events (ts, name, scope_channel_id, entity_type, entity_id, data_json)"
        " VALUES (?, 'channel.created', 'ch_other', 'channel', 'ch_other', ?)",
        (iso(START_MS), json.dumps({"channel": channel})),
    )
    (message_id,) = ask(connection, _UNTOUCHED)
    connection.execute("UPDATE messages SET channel_id = 'ch_other' WHERE id = ?", (message_id,))
    connection.execute(
        "UPDATE events SET data_json = json_set(data_json, '$.message.channel_id', 'ch_other')"
        " WHERE name = 'message.created' AND entity_id = ?",
        (message_id,),
    )


def _attached_twice(connection: apsw.Connection) -> None:
    connection.execute("DROP INDEX idx_topic_attachments_dedupe")
    columns = "topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at"
    (one,) = ask(connection, "SELECT min(id) FROM topic_attachments")
    connection.execute(
        f"INSERT INTO topic_attachments (id, {columns}) SELECT 'att_again', {columns} FROM topic_attachments"
        " WHERE id = ?",
        (one,),
    )
    columns = "ts, name, scope_channel_id, scope_topic_id, entity_type"
    connection.execute(
        f"INSERT INTO events ({columns}, entity_id, data_json) SELECT {columns}, 'att_again',"
        " json_set(data_json, '$.attachment.id', 'att_again') FROM events WHERE entity_id = ?"
        " AND name = 'topic.attachment_added'",
        (one,),
    )
    assert connection.changes() == 1


def _index_forgets(connection: apsw.Connection) -> None:
    seq, content = ask(connection, "SELECT seq, content_raw FROM messages ORDER BY seq LIMIT 1")
    connection.execute(
        "INSERT INTO messages_fts (messages_fts, rowid, content_raw) VALUES ('delete', ?, ?)", (seq, content)
    )


def _index_lies(connection: apsw.Connection) -> None:
    _index_forgets(connection)
    (seq,) = ask(connection, "SELECT min(seq) FROM messages")
    connection.execute("INSERT INTO messages_fts (rowid, content_raw) VALUES (?, 'quite other words')", (seq,))


def _broken_index(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA writable_schema=ON").fetchall()
    connection.execute(
        "UPDATE sqlite_schema SET sql = 'CREATE INDEX idx_topics_channel ON topics(channel_id, created_at DESC)'"
        " WHERE name = 'idx_topics_channel'"
    )
    connection.execute("PRAGMA writable_schema=RESET").fetchall()


def _of_deleted(connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO jobs (message_id, plugin_name, not_before_ms, queued_at)"
        " SELECT id, 'planted', 1, created_at FROM messages WHERE deleted_at IS NOT NULL LIMIT 1"
    )
    assert connection.changes() == 1


def _damage(name: str, plant: Callable[[apsw.Connection], object], *checks: str) -> Damage:
    return Damage(name, plant, frozenset(checks))


PLANTED = (
    _damage("an event is gone", _run(f"DELETE FROM events WHERE {_FIRST}"), "events.gap"),
    _damage(
        "the newest event is gone",
        _run("DELETE FROM events WHERE event_id = (SELECT max(event_id) FROM events)"),
        "events.tail",
    ),
    _damage("a time is no time", _run(f"UPDATE events SET ts = 'yesterday' WHERE {_FIRST}"), "events.time"),
    _damage("a name is unknown", _run(f"UPDATE events SET name = 'from.the_future' WHERE {_FIRST}"), "event.name"),
    _damage("a payload is cut", _run(f"UPDATE events SET data_json = '{{\"a' WHERE {_FIRST}"), "event.payload"),
    _damage("a payload is about another", _about_another, "event.entity"),
    _damage(
        "an edit of nothing",
        lambda db: say(
            db,
            "message.edited",
            "message",
            "msg_no",
            {"message_id": "msg_no", "old_content": "", "new_content": "x", "version": 2},
        ),
        "event.reference",
    ),
    _damage("a second creation", _created_again, "event.twice"),
    _damage("a version too far", _version_jump, "event.version"),
    _damage("a move out of another topic", _moved_from_elsewhere, "event.move"),
    _damage("a claim out of turn", _claimed_out_of_turn, "event.generation"),
    _damage(
        "a scope of another topic",
        _run(
            "UPDATE events SET scope_topic_id = (SELECT max(id) FROM topics WHERE id <> scope_topic_id)"
            " WHERE event_id = (SELECT min(event_id) FROM events WHERE name = 'message.edited')"
        ),
        "event.scope",
    ),
    _damage(
        "a scope that is not there",
        _run(
            "UPDATE events SET scope_channel_id = NULL WHERE event_id ="
            " (SELECT min(event_id) FROM events WHERE name = 'topic.created')"
        ),
        "event.scope",
    ),
    _damage("a message in another channel than its topic", _strayed, "event.channel"),
    _damage("a row is gone", _run(f"DELETE FROM messages WHERE id = ({_UNTOUCHED})"), "state.missing"),
    _damage(
        "a row without an event",
        _run("INSERT INTO channels SELECT 'ch_none', 'none', NULL, created_at FROM channels LIMIT 1"),
        "state.unexplained",
    ),
    _damage("another sender", _run(f"UPDATE messages SET sender = 'eve' WHERE id = ({_UNTOUCHED})"), "state.differs"),
    _damage(
        "another value in JSON",
        _run(
            "UPDATE topic_attachments SET value_json = json_set(value_json, '$.planted', 1)"
            " WHERE id = (SELECT min(id) FROM topic_attachments)"
        ),
        "state.differs",
    ),
    _damage(
        "another holder of a lease",
        _run("UPDATE leases SET holder = 'eve' WHERE id = (SELECT min(id) FROM leases WHERE holder <> 'eve')"),
        "state.differs",
    ),
    _damage("an attachment there twice", _attached_twice, "attachment.twice"),
    _damage(
        "a key of no event",
        _run("UPDATE idempotency_keys SET event_id = 999999 WHERE key = 'key-channel'"),
        "key.event",
    ),
    _damage(
        "a key of another message",
        _run("UPDATE idempotency_keys SET entity_id = 'msg_other' WHERE key = 'key-message-0'"),
        "key.entity",
    ),
    _damage(
        "two keys of one message",
        _run(
            "INSERT INTO idempotency_keys SELECT 'planted', fingerprint, operation, entity_id, event_id, move_id,"
            " created_at FROM idempotency_keys WHERE key = 'key-message-1'"
        ),
        "key.twice",
    ),
    _damage(
        "a key with another fingerprint",
        _run("UPDATE idempotency_keys SET fingerprint = zeroblob(32) WHERE key = 'key-message-2'"),
        "key.fingerprint",
    ),
    _damage("a key of no move", _run("UPDATE idempotency_keys SET move_id = 777 WHERE key = 'key-move'"), "key.move"),
    _damage("a move to nowhere", _run("UPDATE moves SET to_topic_id = 'topic_no'"), "move.reference"),
    _damage("a move with other events", _run("UPDATE moves SET event_ranges = '[[1,1]]'"), "move.reference"),
    _damage("a job of a deleted message", _of_deleted, "job.reference"),
    _damage(
        "a job of no message",
        _run(
            "INSERT INTO jobs (message_id, plugin_name, not_before_ms, queued_at)"
            f" VALUES ('msg_no', 'planted', 1, '{iso(START_MS)}')"
        ),
        "job.reference",
        "sqlite.references",
    ),
    _damage("an index that forgets", _index_forgets, "fts.rows"),
    _damage("an index that lies", _index_lies, "fts.text"),
    _damage("a broken index", _broken_index, "sqlite.integrity"),
)


def _archive_of(connection: apsw.Connection) -> Path:
    (name,) = ask(connection, "SELECT name FROM archives")
    path = discovery.at(Path(connection.filename).parent.parent).archives / name
    path.chmod(0o600)
    return path


def _sealed_no_more(connection: apsw.Connection) -> None:
    archive = apsw.Connection(str(_archive_of(connection)))
    archive.execute("PRAGMA user_version=7").fetchall()
    archive.close()


def _overlapping(connection: apsw.Connection) -> None:
    columns = "ts, name, entity_type, entity_id, data_json"
    connection.execute(
        f"INSERT INTO events (event_id, {columns}) SELECT (SELECT up_to_event_id FROM archives), {columns}"
        " FROM events WHERE name = 'plugin.failed' LIMIT 1"
    )


PLANTED_IN_ARCHIVED = (
    _damage("an archive that is gone", lambda db: _archive_of(db).unlink(), "archive.file"),
    _damage("an archive that is no database", lambda db: _archive_of(db).write_bytes(b"x" * 5000), "archive.file"),
    _damage("an archive that was changed", _sealed_no_more, "archive.digest"),
    _damage(
        "an archive told otherwise",
        _run(
            "UPDATE events SET data_json = json_set(data_json, '$.sha256', 'planted') WHERE name = 'workspace.archived'"
        ),
        "archive.record",
    ),
    _damage("an archived event in the log", _overlapping, "events.overlap"),
)
