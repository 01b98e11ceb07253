"""Moving messages between the topics of a channel.

A selection up to the batch size moves in one transaction. A larger one is written down as a row of ``moves`` in the
same transaction that moves its first chunk; further chunks follow as writes of their own, so other writes pass in
between. The row makes the move survive a crash: the next start goes on with it. Each chunk takes what is *still* in the
old topic, so a message that somebody else moved in the meantime stays where they put it.
"""

from typing import Any, NamedTuple

import apsw
import msgspec

from parley.core.errors import CrossChannelMove, InvalidInput
from parley.core.limits import VERSION_MAX
from parley.hub.rules.channels import topic_of
from parley.hub.rules.idempotency import Once, earlier, remember
from parley.hub.rules.messages import check_version, message_of
from parley.hub.transaction import Tx
from parley.wire.answers import MovePreview, MoveResult
from parley.wire.entities import Message
from parley.wire.requests import MoveMessage, MoveMode
from parley.workspace.log import Draft, encode_json

_decode_rows = msgspec.json.Decoder(list[tuple[int, str, int]]).decode
_decode_ranges = msgspec.json.Decoder(list[tuple[int, int]]).decode


class Moving(NamedTuple):
    """A move that is not finished; continue it with ``continue_move``."""

    move_id: int
    duplicate: bool = False


class _Span(NamedTuple):
    """What is to be moved: the messages of a topic in a range of the integer key."""

    channel_id: str
    from_topic_id: str
    to_topic_id: str
    mode: str
    first_seq: int
    last_seq: int


def start_move(
    tx: Tx, message_id: str, request: MoveMessage, batch_max: int, once: Once | None = None
) -> MoveResult | Moving:
    """Moves the selection, or its first chunk."""
    if (before := earlier(tx, once)) is not None:
        return _first_result(tx, before.move_id)
    message = message_of(tx.db, message_id)
    span = _selected(tx.db, message, request.to_topic_id, request.mode)
    check_version(message, request.expected_version)
    if span.from_topic_id == span.to_topic_id:
        remember(tx, once, "message.move", message_id, None)
        return MoveResult(0, [])
    event_ids, next_seq = _move_chunk(tx, span, batch_max)
    if next_seq is None and once is None:
        return MoveResult(len(event_ids), list(event_ids))
    move_id = _write_down(tx, message_id, span, event_ids, next_seq)
    remember(tx, once, "message.move", message_id, event_ids[0] if event_ids else None, move_id)
    return Moving(move_id) if next_seq is not None else MoveResult(len(event_ids), list(event_ids))


def preview_move(db: apsw.Connection, message_id: str, to_topic_id: str, mode: MoveMode) -> MovePreview:
    """What a move would take along if it were made now."""
    span = _selected(db, message_of(db, message_id), to_topic_id, mode)
    to_topic_id = span.to_topic_id
    if span.from_topic_id == to_topic_id:
        return MovePreview(0, None, None, span.from_topic_id, to_topic_id)
    found: Any = db.execute(
        "SELECT count(*), min(seq), max(seq) FROM messages WHERE topic_id = ? AND seq >= ? AND seq <= ?",
        (span.from_topic_id, span.first_seq, span.last_seq),
    ).fetchone()
    count, *ends = found
    first, last = (db.execute("SELECT id FROM messages WHERE seq = ?", (seq,)).fetchall()[0][0] for seq in ends)
    return MovePreview(count, str(first), str(last), span.from_topic_id, to_topic_id)


def continue_move(tx: Tx, move_id: int, batch_max: int) -> MoveResult | Moving:
    """Moves the next chunk of a large move; the result once nothing is left."""
    row = tx.db.execute(
        "SELECT channel_id, from_topic_id, to_topic_id, mode, first_seq, last_seq, event_ranges, finished_at"
        " FROM moves WHERE id = ?",
        (move_id,),
    ).fetchone()
    if row is None:
        raise InvalidInput(f"No such move: {move_id}")
    *columns, ranges_text, finished_at = row
    if finished_at is not None:
        return _result(ranges_text)
    span = _Span(*columns)
    event_ids, next_seq = _move_chunk(tx, span, batch_max)
    ranges = _decode_ranges(ranges_text)
    if event_ids:
        ranges.append((event_ids[0], event_ids[-1]))
    ranges_text = encode_json(ranges).decode()
    tx.db.execute(
        "UPDATE moves SET first_seq = ?, moved = moved + ?, event_ranges = ?, finished_at = ? WHERE id = ?",
        (next_seq or span.first_seq, len(event_ids), ranges_text, None if next_seq else tx.ts, move_id),
    )
    return Moving(move_id) if next_seq is not None else _result(ranges_text)


def unfinished_moves(db: apsw.Connection) -> list[int]:
    """Moves that a crash or a refused write interrupted, and those that are under way."""
    rows: Any = db.execute("SELECT id FROM moves WHERE finished_at IS NULL ORDER BY id")
    return [move_id for (move_id,) in rows]


def _selected(db: apsw.Connection, message: Message, to_topic_id: str, mode: MoveMode) -> _Span:
    """The messages that a move is about. Raises ``CrossChannelMove``."""
    target = topic_of(db, to_topic_id)
    if target.channel_id != message.channel_id:
        raise CrossChannelMove(
            f"Cannot move message {message.id} to topic {target.id} of another channel",
            message_id=message.id,
            to_topic_id=target.id,
        )
    (seq,) = db.execute("SELECT seq FROM messages WHERE id = ?", (message.id,)).fetchone() or (0,)
    (newest,) = db.execute("SELECT max(seq) FROM messages").fetchone() or (0,)
    bounds = {"one": (seq, seq), "later": (seq, newest), "all": (0, newest)}[mode]
    return _Span(message.channel_id, message.topic_id, target.id, mode, *bounds)


def _first_result(tx: Tx, move_id: int | None) -> MoveResult | Moving:
    """What the first request with the same key got or will get."""
    if move_id is None:
        return MoveResult(0, [], duplicate=True)
    row = tx.db.execute("SELECT event_ranges, finished_at FROM moves WHERE id = ?", (move_id,)).fetchone()
    if row is None or row[1] is None:
        return Moving(move_id, duplicate=True)
    return msgspec.structs.replace(_result(row[0]), duplicate=True)


def _move_chunk(tx: Tx, span: _Span, batch_max: int) -> tuple[range, int | None]:
    """Moves up to ``batch_max`` messages; the ids of their events, and where the next chunk starts, if there is one."""
    selected: Any = tx.db.execute(
        "SELECT json_group_array(json_array(seq, id, version) ORDER BY seq) FROM"
        " (SELECT seq, id, version FROM messages WHERE topic_id = ? AND seq >= ? AND seq <= ? ORDER BY seq LIMIT ?)",
        (span.from_topic_id, span.first_seq, span.last_seq, batch_max + 1),
    ).fetchone()
    rows = _decode_rows(selected[0])  # one row, so one turn at the interpreter, as in ``append_events``
    chunk, more = rows[:batch_max], rows[batch_max:]
    if not chunk:
        return range(0), None
    for _, message_id, version in chunk:
        if version >= VERSION_MAX:
            raise InvalidInput("This message has reached the largest version", message_id=message_id)
    tx.db.execute(
        "UPDATE messages SET topic_id = ?, version = version + 1 WHERE topic_id = ? AND seq >= ? AND seq <= ?",
        (span.to_topic_id, span.from_topic_id, chunk[0][0], chunk[-1][0]),
    )
    event_ids = tx.append_many([_moved(span, message_id, version + 1) for _, message_id, version in chunk])
    tx.db.execute("UPDATE topics SET updated_at = ? WHERE id IN (?, ?)", (tx.ts, span.from_topic_id, span.to_topic_id))
    return event_ids, more[0][0] if more else None


def _moved(span: _Span, message_id: str, version: int) -> Draft:
    payload = {
        "message_id": message_id,
        "old_topic_id": span.from_topic_id,
        "new_topic_id": span.to_topic_id,
        "channel_id": span.channel_id,
        "mode": span.mode,
        "version": version,
    }
    return Draft(
        "message.moved_topic",
        message_id,
        payload,
        channel_id=span.channel_id,
        topic_id=span.from_topic_id,
        topic_id2=span.to_topic_id,
    )


def _write_down(tx: Tx, message_id: str, span: _Span, event_ids: range, next_seq: int | None) -> int:
    ranges = [(event_ids[0], event_ids[-1])] if event_ids else []
    tx.db.execute(
        "INSERT INTO moves (message_id, channel_id, from_topic_id, to_topic_id, mode, first_seq, last_seq, moved,"
        " event_ranges, created_at, finished_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            message_id,
            span.channel_id,
            span.from_topic_id,
            span.to_topic_id,
            span.mode,
            next_seq or span.first_seq,
            span.last_seq,
            len(event_ids),
            encode_json(ranges).decode(),
            tx.ts,
            None if next_seq else tx.ts,
        ),
    )
    return tx.db.last_insert_rowid()


def _result(ranges_text: str) -> MoveResult:
    event_ids = [event_id for first, last in _decode_ranges(ranges_text) for event_id in range(first, last + 1)]
    return MoveResult(len(event_ids), event_ids)
