"""Turning an Agentlip database into ours, in place and in one transaction.

``messages`` gets an explicit key in the order of the old implicit one, which was the order of creation, and the tables
that refer to others lose their cascading deletes. What was written stays as it was written: every value is copied as it
is, ``events``, ``channels``, ``enrichments`` and ``meta`` are not even touched. The result has exactly the schema of a
new workspace, so later migrations meet one shape only.
"""

from typing import Final

import apsw

from parley.sqlite import split_statements
from parley.workspace.fts import drop_fts
from parley.workspace.versions import MIGRATIONS

_TOUCHED: Final = ("topics", "messages", "topic_attachments", "events", "enrichments", "channels")
_EXTRAS: Final = (
    "SELECT type, name FROM sqlite_schema WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL"
)
_COLUMNS: Final = {
    "topics": "id, channel_id, title, created_at, updated_at",
    "messages": "id, topic_id, channel_id, sender, content_raw, version, created_at, edited_at, deleted_at, deleted_by",
    "topic_attachments": "id, topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at",
}


def adopt_agentlip(connection: apsw.Connection) -> None:
    """Runs inside the migration's transaction, with foreign keys not enforced until they are checked at its end."""
    drop_fts(connection)
    for table in _TOUCHED:
        for kind, name in connection.execute(_EXTRAS, (table,)).fetchall():
            connection.execute(f'DROP {kind} "{name}"')
    # Otherwise a rename would also rewrite the other tables' references to follow the old table.
    connection.execute("PRAGMA legacy_alter_table=ON").fetchall()
    try:
        for table in _COLUMNS:
            connection.execute(f"ALTER TABLE {table} RENAME TO agentlip_{table}")
    finally:
        connection.execute("PRAGMA legacy_alter_table=OFF").fetchall()
    first = MIGRATIONS[0].sql
    assert isinstance(first, str)
    for statement in split_statements(first):
        connection.execute(statement)
    for table, columns in _COLUMNS.items():
        # rowid is the order of creation; in ``messages`` it is the name of ``seq`` too.
        connection.execute(
            f"INSERT INTO {table} (rowid, {columns}) SELECT rowid, {columns} FROM agentlip_{table} ORDER BY rowid"
        )
        connection.execute(f"DROP TABLE agentlip_{table}")
