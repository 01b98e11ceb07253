"""Reading the inbox: pages, what is new, what matches, and what has been seen."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, Final

import apsw
import msgspec

from parley.core import untrusted_json
from parley.core.daemon_errors import RowNotFound
from parley.wire.broker import DestinationKind, Priority

_COLUMNS: Final = (
    "seq, id, mesh_id, client_message_id, broker_message_id, history_id, sender_id, sender_pubkey, sender_name,"
    " recipient_id, destination_kind, destination_ref, priority, reply_to_id, mentioned, body, meta, key_epoch,"
    " accepted_at, received_at, seen_at, refused"
)
_WHERE: Final = (
    "waiting = 0 AND (?1 IS NULL OR mesh_id = ?1) AND (?2 IS NULL OR received_at >= ?2)"
    " AND (?3 IS NULL OR (destination_kind = 'topic' AND destination_ref = ?3))"
    " AND (?4 IS NULL OR sender_pubkey = ?4 OR sender_name = ?4) AND (?5 = 0 OR seen_at IS NULL)"
    " AND (?6 IS NULL OR seq < ?6)"
    " AND (?8 IS NULL OR coalesce(json_extract(meta, '$.parley_session.to'), ?8) = ?8)"
)
_PAGE: Final = f"SELECT {_COLUMNS} FROM inbox WHERE {_WHERE} ORDER BY seq DESC LIMIT ?7"
_MATCH: Final = (
    f"SELECT {_COLUMNS} FROM inbox WHERE seq IN (SELECT rowid FROM inbox_fts WHERE inbox_fts MATCH ?9)"
    f" AND {_WHERE} ORDER BY seq DESC LIMIT ?7"
)
_ONE: Final = f"SELECT {_COLUMNS} FROM inbox WHERE id = ?"
_BY_SEQ: Final = f"SELECT {_COLUMNS} FROM inbox WHERE seq IN (SELECT value FROM json_each(?))"
_SEEN: Final = "UPDATE inbox SET seen_at = ? WHERE seen_at IS NULL AND id IN (SELECT value FROM json_each(?))"
_COUNTS: Final = "SELECT unseen, sealed FROM held"
_NEWEST: Final = "SELECT coalesce(max(seq), 0) FROM inbox"


class InboxMessage(msgspec.Struct, frozen=True):
    """A message that arrived. ``body`` is None while no key opens it, or when what it holds cannot be read."""

    seq: int
    id: str
    mesh_id: str
    client_message_id: str
    broker_message_id: str
    history_id: int
    sender_id: str
    sender_pubkey: str
    sender_name: str
    recipient_id: str
    destination_kind: DestinationKind
    destination_ref: str
    priority: Priority
    reply_to_id: str | None
    mentioned: bool
    body: str | None
    meta: dict[str, Any]
    key_epoch: int | None
    accepted_at: str
    received_at: int
    seen_at: int | None
    refused: str | None = None
    """Why it is not shown as said."""


Fits = Callable[[InboxMessage], bool]
"""Whether one more message may be read; the rest stays where it is."""


class Filter(msgspec.Struct, frozen=True):
    """Which messages are asked for; None is any."""

    mesh_id: str | None = None
    since_ms: int | None = None
    topic: str | None = None
    sender: str | None = None
    unread_only: bool = False
    before_seq: int | None = None
    """The cursor of a page: messages that arrived before this one."""
    session: str | None = None
    """Without what is for other sessions than this."""


def page(db: apsw.Connection, wanted: Filter, limit: int, fits: Fits = lambda message: True) -> list[InboxMessage]:
    """Messages, newest first, up to the first that does not fit."""
    return _messages(db.execute(_PAGE, _values(wanted, limit)), fits)


def search(
    db: apsw.Connection, query: str, wanted: Filter, limit: int, fits: Fits = lambda message: True
) -> list[InboxMessage]:
    """Messages that hold what the query asks for, newest first, up to the first that does not fit. What is no valid
    syntax is taken word by word."""
    words = query.replace("\0", " ").split()
    if not words:
        return []
    quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words)
    for attempt in (" ".join(words), quoted):
        try:
            return _messages(db.execute(_MATCH, (*_values(wanted, limit), attempt)), fits)
        except apsw.SQLError:  # the result code with which FTS5 refuses a query's syntax
            continue
    return []


def message(db: apsw.Connection, row_id: str) -> InboxMessage:
    """One message. Raises ``RowNotFound``."""
    found = _messages(db.execute(_ONE, (row_id,)).fetchall())
    if not found:
        raise RowNotFound(f"No such message in the inbox: {row_id}", id=row_id)
    return found[0]


def messages_at(db: apsw.Connection, seqs: Sequence[int]) -> dict[int, InboxMessage]:
    """Messages by their place in the inbox; those that were removed are not among them."""
    found = db.execute(_BY_SEQ, (msgspec.json.encode(list(seqs)).decode(),)).fetchall()
    return {each.seq: each for each in _messages(found)}


def mark_seen(db: apsw.Connection, ids: Sequence[str], *, now_ms: int) -> int:
    """Marks messages as seen. How many were not before."""
    db.execute(_SEEN, (now_ms, msgspec.json.encode(list(ids)).decode()))
    return db.changes()


def unseen_and_sealed(db: apsw.Connection) -> tuple[int, int]:
    """How many messages nobody has seen, and how many no key opens. It costs the same however many there are."""
    rows: list[Any] = db.execute(_COUNTS).fetchall()
    return int(rows[0][0]), int(rows[0][1])


def newest_seq(db: apsw.Connection) -> int:
    """The place of the message that arrived last."""
    rows: list[Any] = db.execute(_NEWEST).fetchall()
    return int(rows[0][0])


def _values(wanted: Filter, limit: int) -> tuple[str | int | None, ...]:
    return (
        wanted.mesh_id,
        wanted.since_ms,
        wanted.topic,
        wanted.sender,
        int(wanted.unread_only),
        wanted.before_seq,
        limit,
        wanted.session,
    )


def _messages(rows: Iterable[Any], fits: Fits = lambda message: True) -> list[InboxMessage]:
    return list(takewhile(fits, map(_message, rows)))


def _message(row: tuple[Any, ...]) -> InboxMessage:
    body, meta = row[15], {}
    try:
        meta = untrusted_json.decode(row[16], dict[str, Any])
    except msgspec.DecodeError:
        body = None  # stored before metadata was judged on arrival; whoever passed it on would fail, too
    values: tuple[Any, ...] = (*row[:14], bool(row[14]), body, meta, *row[17:])
    return InboxMessage(*values)
