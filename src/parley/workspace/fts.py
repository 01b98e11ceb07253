"""The full-text index over messages: a setting, not a schema version, so it can be switched on and off at any start.

It stores no text of its own: it refers to ``messages`` by ``seq``. Such an index must be told the old text to forget,
exactly as it was indexed, which is what the ``'delete'`` rows of the triggers do.

New messages are not indexed by a trigger, one by one, but together at the end of the writer's transaction, which costs
less than half: FTS5 writes out what it has gathered at every savepoint. The largest key in the index tells where to go
on, so a message that some other tool inserted is caught up with by the next transaction or start. Until then the
triggers leave it alone.
"""

from typing import Final

import apsw

from parley.core.errors import DatabaseCorrupt
from parley.sqlite import translate
from parley.workspace.queries.search import FTS_TABLE

_INDEXED: Final = "SELECT coalesce(max(id), 0) FROM messages_fts_docsize"
_PARTS: Final[dict[str, str | None]] = {
    FTS_TABLE: "CREATE VIRTUAL TABLE messages_fts USING fts5(content_raw, content='messages', content_rowid='seq')",
    "messages_fts_insert": None,  # Agentlip has one
    "messages_fts_update": f"""CREATE TRIGGER messages_fts_update AFTER UPDATE OF content_raw ON messages
WHEN old.seq <= ({_INDEXED}) BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content_raw) VALUES ('delete', old.seq, old.content_raw);
    INSERT INTO messages_fts (rowid, content_raw) VALUES (new.seq, new.content_raw);
END""",
    "messages_fts_delete": f"""CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages
WHEN old.seq <= ({_INDEXED}) BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content_raw) VALUES ('delete', old.seq, old.content_raw);
END""",
}
_INDEX_NEW: Final = (
    f"INSERT INTO messages_fts (rowid, content_raw) SELECT seq, content_raw FROM messages WHERE seq > ({_INDEXED})"
)
_FIND: Final = "SELECT name, sql FROM sqlite_schema WHERE name = ?"


def ensure_fts(connection: apsw.Connection, enabled: bool) -> bool:
    """Makes the index be there, filled, or not be there. Returns whether it is there.

    A hub works without it, so a failure to build it leaves the database as it was and shows only in the answer. Damage
    of the database is another matter and is raised.
    """
    found = {name: _sql_of(connection, name) for name in _PARTS}
    if not enabled and not any(found.values()):
        return False
    try:
        with connection:
            if not enabled:
                drop_fts(connection)
            elif found == _PARTS:
                index_new(connection)
            else:
                drop_fts(connection)
                _build(connection)
    except apsw.Error as error:
        typed = translate(error)
        if isinstance(typed, DatabaseCorrupt):
            raise typed from error
        return _sql_of(connection, FTS_TABLE) is not None
    return enabled


def index_new(connection: apsw.Connection) -> None:
    """Indexes the messages that are not in the index yet, inside the caller's transaction."""
    connection.execute(_INDEX_NEW)


def drop_fts(connection: apsw.Connection) -> None:
    """Removes the index, ours or Agentlip's, inside the caller's transaction."""
    for name in _PARTS:
        if name != FTS_TABLE:
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    connection.execute(f"DROP TABLE IF EXISTS {FTS_TABLE}")


def _build(connection: apsw.Connection) -> None:
    for statement in _PARTS.values():
        if statement is not None:
            connection.execute(statement)
    connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')")


def _sql_of(connection: apsw.Connection, name: str) -> str | None:
    row = connection.execute(_FIND, (name,)).fetchone()
    return None if row is None else str(row[1])
