"""What SQLite itself can tell of one hub's copy: its soundness, its references, its index, its ends.

Runs in one task a hub. The copy is the audit's own, so the index may be caught up with new messages before it is
compared. A file so damaged that a question cannot be answered is found by the first check, and the others say nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import apsw

from parley.pipeline.audit.copies import HubCopy
from parley.pipeline.audit.findings import Finding
from parley.sqlite import close_quietly, foreign_key_check, integrity_check
from parley.workspace.fts import index_new
from parley.workspace.queries.events import columns_there
from parley.workspace.queries.search import has_index

_TAIL: Final = "SELECT seq, (SELECT coalesce(max(event_id), 0) FROM events) FROM sqlite_sequence WHERE name = 'events'"
_JOBS: Final = (
    "SELECT job.id, job.message_id, job.plugin_name, message.id IS NULL FROM jobs AS job"
    " LEFT JOIN messages AS message ON message.id = job.message_id"
    " WHERE message.id IS NULL OR message.deleted_at IS NOT NULL"
)
_MOVES_TOPICS: Final = (
    "SELECT move.id, topic.value FROM moves AS move, json_each(json_array(from_topic_id, to_topic_id)) AS topic"
    " WHERE topic.value NOT IN (SELECT id FROM topics)"
)
_MOVES_EVENTS: Final = (
    "SELECT move.id, span.value->>0, span.value->>1, (SELECT count(*) FROM events"
    " WHERE event_id BETWEEN span.value->>0 AND span.value->>1 AND name = 'message.moved_topic')"
    " FROM moves AS move, json_each(move.event_ranges) AS span WHERE span.value->>0 > ?"
)
_KEYS_MOVES: Final = (
    "SELECT key, move_id FROM idempotency_keys WHERE move_id IS NOT NULL AND move_id NOT IN (SELECT id FROM moves)"
)
_NOT_INDEXED: Final = "SELECT id, seq FROM messages WHERE seq NOT IN (SELECT id FROM messages_fts_docsize)"
_INDEXED_ALONE: Final = "SELECT id FROM messages_fts_docsize WHERE id NOT IN (SELECT seq FROM messages)"
_COMPARE_TEXT: Final = "INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)"


def look_into(copy: HubCopy) -> Iterator[Finding]:
    """What is wrong with the file, as far as one file tells."""
    yield from _ends(copy)
    yield from _archives(copy)
    connection = apsw.Connection(copy.database)
    try:
        problems = integrity_check(connection)
        for problem in problems:
            yield Finding("sqlite.integrity", copy.db_id, "database", found=problem)
        for look in () if problems else _LOOKS:
            yield from look(connection, copy)
    finally:
        close_quietly(connection)


def _ends(copy: HubCopy) -> Iterator[Finding]:
    """Whether the log begins where its archives end, and they where the ones before them do."""
    edge = 0
    for archive in copy.archives:
        if archive.bounds is not None:
            yield from _joint(copy, edge, archive.bounds.lo, archive.name)
            yield from _joint(copy, archive.up_to, archive.bounds.hi, archive.name)
        edge = archive.up_to
    yield from _joint(copy, edge, copy.bounds.lo, "events")


def _joint(copy: HubCopy, edge: int, begins: int, place: str) -> Iterator[Finding]:
    if begins > edge:
        yield Finding("events.gap", copy.db_id, place, str(edge + 1), event_id=edge + 1, expected=f"event {edge + 1}")
    elif begins < edge:
        said = f"event {begins + 1}, which an archive up to {edge} holds"
        yield Finding("events.overlap", copy.db_id, place, str(begins + 1), event_id=begins + 1, found=said)


def _archives(copy: HubCopy) -> Iterator[Finding]:
    for archive in copy.archives:
        if archive.bounds is None:
            yield Finding("archive.file", copy.db_id, "archives", archive.name, expected=archive.path)
        elif archive.digest != archive.sha256:
            yield Finding(
                "archive.digest", copy.db_id, "archives", archive.name, "sha256", None, archive.sha256, archive.digest
            )


def _references(connection: apsw.Connection, copy: HubCopy) -> Iterator[Finding]:
    for row in foreign_key_check(connection):
        yield Finding("sqlite.references", copy.db_id, row.table, f"row {row.rowid}", expected=f"a row of {row.parent}")


def _tail(connection: apsw.Connection, copy: HubCopy) -> Iterator[Finding]:
    for given, newest in _rows(connection, _TAIL):
        if given > newest:
            said = f"event {given}"
            yield Finding(
                "events.tail", copy.db_id, "events", str(given), None, given, said, f"the log ends at {newest}"
            )


def _jobs(connection: apsw.Connection, copy: HubCopy) -> Iterator[Finding]:
    if not columns_there(connection, "jobs", ("id",)):
        return
    for job_id, message_id, plugin, missing in _rows(connection, _JOBS):
        problem = "does not exist" if missing else "is deleted"
        said = f"{message_id} for {plugin}, which {problem}"
        yield Finding("job.reference", copy.db_id, "jobs", str(job_id), "message_id", found=said)


def _moves(connection: apsw.Connection, copy: HubCopy) -> Iterator[Finding]:
    if not columns_there(connection, "moves", ("id",)):
        return
    for move_id, topic_id in _rows(connection, _MOVES_TOPICS):
        yield Finding("move.reference", copy.db_id, "moves", str(move_id), None, None, "a topic", topic_id)
    for move_id, first, last, there in _rows(connection, _MOVES_EVENTS, copy.floor):
        if there != last - first + 1:
            said = f"{last - first + 1} moves from event {first} to {last}"
            yield Finding("move.reference", copy.db_id, "moves", str(move_id), "event_ranges", first, said, str(there))
    for key, move_id in _rows(connection, _KEYS_MOVES):
        yield Finding("key.move", copy.db_id, "idempotency_keys", key, "move_id", None, "a move", str(move_id))


def _index(connection: apsw.Connection, copy: HubCopy) -> Iterator[Finding]:
    """A message that some other tool inserted waits for the next write to be indexed; that is no damage."""
    if not has_index(connection) or not columns_there(connection, "messages", ("seq",)):
        return
    index_new(connection)
    rows_differ = False
    for message_id, seq in _rows(connection, _NOT_INDEXED):
        rows_differ = True
        yield Finding("fts.rows", copy.db_id, "messages_fts", message_id, None, None, f"row {seq}", "nothing")
    for (seq,) in _rows(connection, _INDEXED_ALONE):
        rows_differ = True
        yield Finding("fts.rows", copy.db_id, "messages_fts", f"row {seq}", None, None, "nothing", f"row {seq}")
    if not rows_differ:
        try:
            connection.execute(_COMPARE_TEXT)
        except apsw.CorruptError:
            yield Finding("fts.text", copy.db_id, "messages_fts", None, "content_raw", None, "the messages' words")


def _rows(connection: apsw.Connection, statement: str, *parameters: int) -> list[Any]:
    return connection.execute(statement, parameters).fetchall()


_LOOKS: Final[tuple[Callable[[apsw.Connection, HubCopy], Iterator[Finding]], ...]] = (
    _references,
    _tail,
    _jobs,
    _moves,
    _index,
)
