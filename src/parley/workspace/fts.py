"""The full-text index over messages: a setting, not a schema version, so it can be switched on and off at any start.

It stores no text of its own: it refers to ``messages`` by ``seq``. Such an index must be told the old text to forget,
exactly as it was indexed, which is what the ``'delete'`` rows of the triggers do.
"""

from typing import Final

import apsw

from parley.core.errors import DatabaseCorrupt
from parley.sqlite import translate
from parley.workspace.queries.search import FTS_TABLE

_PARTS: Final = {
    FTS_TABLE: "CREATE VIRTUAL TABLE messages_fts USING fts5(content_raw, content='messages', content_rowid='seq')",
    "messages_fts_insert": """CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts (rowid, content_raw) VALUES (new.seq, new.content_raw);
END""",
    "messages_fts_update": """CREATE TRIGGER messages_fts_update AFTER UPDATE OF content_raw ON messages BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content_raw) VALUES ('delete', old.seq, old.content_raw);
    INSERT INTO messages_fts (rowid, content_raw) VALUES (new.seq, new.content_raw);
END""",
    "messages_fts_delete": """CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content_raw) VALUES ('delete', old.seq, old.content_raw);
END""",
}
_FIND: Final = "SELECT name, sql FROM sqlite_schema WHERE name = ?"


def ensure_fts(connection: apsw.Connection, enabled: bool) -> bool:
    """Makes the index be there, filled, or not be there. Returns whether it is there.

    A hub works without it, so a failure to build it leaves the database as it was and shows only in the answer. Damage
    of the database is another matter and is raised.
    """
    found = {name: _sql_of(connection, name) for name in _PARTS}
    if enabled and found == _PARTS:
        return True
    if not enabled and not any(found.values()):
        return False
    try:
        with connection:
            drop_fts(connection)
            if enabled:
                for statement in _PARTS.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")
    except apsw.Error as error:
        typed = translate(error)
        if isinstance(typed, DatabaseCorrupt):
            raise typed from error
        return _sql_of(connection, FTS_TABLE) is not None
    return enabled


def drop_fts(connection: apsw.Connection) -> None:
    """Removes the index, ours or Agentlip's, inside the caller's transaction."""
    for name in _PARTS:
        if name != FTS_TABLE:
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    connection.execute(f"DROP TABLE IF EXISTS {FTS_TABLE}")


def _sql_of(connection: apsw.Connection, name: str) -> str | None:
    row = connection.execute(_FIND, (name,)).fetchone()
    return None if row is None else str(row[1])
