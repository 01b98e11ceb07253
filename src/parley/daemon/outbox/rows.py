"""A row of the outbox, and how to read one."""

import base64
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, get_args

import apsw
import msgspec

from parley.core.daemon_errors import RowNotFound
from parley.wire.broker import DestinationKind, Priority, Send
from parley.wire.daemon_answers import RowStatus

STATUSES: Final[tuple[RowStatus, ...]] = get_args(RowStatus)


class OutboxRow(msgspec.Struct, frozen=True):
    """One message that this machine was asked to send. Its fields are the columns, in their order."""

    seq: int
    id: str
    client_message_id: str
    request_fingerprint: bytes
    mesh_id: str
    to_spec: str
    destination_kind: DestinationKind
    destination_ref: str
    reply_to_id: str | None
    priority: Priority
    meta: str
    mentions: str
    payload: bytes
    sender_identity: str
    sealed: bytes
    key_epoch: int | None
    wire_fingerprint: bytes
    enqueued_at: int
    attempts: int = 0
    next_attempt_at: int = 0
    status: RowStatus = "pending"
    last_error: str | None = None
    delivered_at: int | None = None
    broker_message_id: str | None = None
    history_id: int | None = None
    aborted_at: int | None = None
    aborted_by: str | None = None
    superseded_by: str | None = None
    pruned_at: int | None = None


COLUMNS: Final = ", ".join(OutboxRow.__struct_fields__)
_BY_CLIENT_ID: Final = f"SELECT {COLUMNS} FROM outbox WHERE client_message_id = ?"
_BY_ID: Final = f"SELECT {COLUMNS} FROM outbox WHERE id = ?"
_PREDECESSOR: Final = f"SELECT {COLUMNS} FROM outbox WHERE superseded_by = ?"
_LIST: Final = (
    f"SELECT {COLUMNS} FROM outbox WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR mesh_id = ?2)"
    " AND (?3 IS NULL OR seq < ?3) ORDER BY seq DESC LIMIT ?4"
)
_COUNTS: Final = f"SELECT mesh_id, {', '.join(STATUSES)} FROM tally"
_FIRST: Final = "(SELECT enqueued_at FROM outbox WHERE status = '{}' ORDER BY seq LIMIT 1)"
_OLDEST: Final = f"SELECT {_FIRST.format('pending')}, {_FIRST.format('inflight')}"


def row_of(values: tuple[Any, ...]) -> OutboxRow:
    """The row of a result with all columns."""
    return OutboxRow(*values)


def by_client_id(db: apsw.Connection, client_message_id: str) -> OutboxRow | None:
    """The one row that this id is bound to, whatever became of it."""
    values = db.execute(_BY_CLIENT_ID, (client_message_id,)).fetchone()
    return None if values is None else row_of(values)


def by_id(db: apsw.Connection, row_id: str) -> OutboxRow:
    """The row. Raises ``RowNotFound``."""
    values = db.execute(_BY_ID, (row_id,)).fetchone()
    if values is None:
        raise RowNotFound(f"No such outbox row: {row_id}", id=row_id)
    return row_of(values)


def find(db: apsw.Connection, name: str) -> OutboxRow:
    """The row with this id or this client_message_id. Raises ``RowNotFound``."""
    return by_client_id(db, name) or by_id(db, name)


def list_rows(
    db: apsw.Connection, *, status: RowStatus | None, mesh_id: str | None, limit: int, before_seq: int | None = None
) -> list[OutboxRow]:
    """Rows, newest first; those before one, if it is given."""
    return [row_of(values) for values in db.execute(_LIST, (status, mesh_id, before_seq, limit))]


def chain(db: apsw.Connection, row: OutboxRow) -> list[OutboxRow]:
    """The row with all that it replaced and all that replaced it, oldest first."""
    before = list(_walk(db, _PREDECESSOR, row.id))
    after: list[OutboxRow] = []
    last = row
    while last.superseded_by is not None:
        last = by_id(db, last.superseded_by)
        after.append(last)
    return [*reversed(before), row, *after]


def counts(db: apsw.Connection) -> list[tuple[str, RowStatus, int]]:
    """How many rows there are, per mesh and status. It costs the same however many they are."""
    return [
        (str(mesh), status, int(number))
        for mesh, *numbers in _all(db, _COUNTS)
        for status, number in zip(STATUSES, numbers, strict=True)
        if number
    ]


def states(db: apsw.Connection) -> Counter[RowStatus]:
    """How many rows of all meshes are in each state."""
    found: Counter[RowStatus] = Counter()
    for _, status, number in counts(db):
        found[status] += number
    return found


def waiting_rows(db: apsw.Connection) -> int:
    """How many messages are still to be sent."""
    found = states(db)
    return found["pending"] + found["inflight"]


def oldest_waiting(db: apsw.Connection) -> int | None:
    """When the first of the messages that are still to be sent was accepted."""
    return min((int(at) for at in _all(db, _OLDEST)[0] if at is not None), default=None)


def send_frame(row: OutboxRow) -> Send:
    """What goes to the broker: the same at every try, since all of it is in the row."""
    return Send(
        client_message_id=row.client_message_id,
        kind=row.destination_kind,
        ref=row.destination_ref,
        body=base64.b64encode(row.sealed).decode(),
        fingerprint=row.wire_fingerprint.hex(),
        priority=row.priority,
        reply_to=row.reply_to_id,
        mentions=msgspec.json.decode(row.mentions, type=list[str]),
        key_epoch=row.key_epoch,
        sender_key=row.sender_identity,
    )


def _walk(db: apsw.Connection, statement: str, row_id: str) -> Iterator[OutboxRow]:
    values = db.execute(statement, (row_id,)).fetchone()
    while values is not None:
        row = row_of(values)
        yield row
        values = db.execute(statement, (row.id,)).fetchone()


def _all(db: apsw.Connection, statement: str) -> list[Any]:
    return db.execute(statement).fetchall()
