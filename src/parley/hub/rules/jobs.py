"""Jobs: a row for each message that needs a run of a plugin.

The row is written in the transaction that posts or edits the message, so no crash can lose it, and it goes in the one
that stores what the plugin found. That transaction looks at the message's version once more. A message that moved on in
the meantime keeps its row and is read again once it has settled; so an edit, or ten, while a job waits or runs costs
one more run, and a move has nothing to write at all. A delete ends the message's jobs. A plugin that fails is tried
again later, and after its last attempt the row stays as failed, with the reason, until an edit or ``re-enrich`` queues
it again.

A job is known by its message and plugin. The number of its row only keeps the order: SQLite gives it to another row
once it is free.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import apsw

from parley.core.clock import parse_iso
from parley.hub.rules.findings import add_attachments, replace_enrichments
from parley.hub.transaction import Tx
from parley.wire.entities import Message
from parley.wire.events import Enrichment
from parley.wire.requests import AddAttachment
from parley.workspace import queries
from parley.workspace.log import encode_json
from parley.workspace.queries.entities import MESSAGE_COLUMNS
from parley.workspace.queries.events import columns_there

WAIT_MS_MAX: Final = 3_600_000
"""No job waits longer for its next attempt. If all seem to, the clock was set back since: the first of them is due."""
COUNTED_MAX: Final = 100_000
"""Jobs are counted up to here, so that looking at a long queue stays cheap."""
PROBLEM_CHARS_MAX: Final = 2_000

_QUEUE: Final = (
    "INSERT INTO jobs (message_id, plugin_name, not_before_ms, queued_at) VALUES (?, ?, ?, ?)"
    # Of a job that waits for its first run nothing changes: the run will read the newest version.
    " ON CONFLICT (message_id, plugin_name) DO UPDATE SET state = 'waiting', attempts = 0, problem = NULL,"
    " not_before_ms = excluded.not_before_ms, queued_at = excluded.queued_at WHERE attempts > 0"
)
_QUEUE_HISTORY: Final = (
    "INSERT INTO jobs (message_id, plugin_name, not_before_ms, queued_at)"
    " SELECT DISTINCT m.id, plugin.value, ?1, ?2 FROM events AS e JOIN messages AS m ON m.id = e.entity_id"
    " JOIN json_each(?3) AS plugin WHERE e.event_id > ?4 AND e.event_id <= ?5"
    " AND e.name IN ('message.created', 'message.edited') AND m.deleted_at IS NULL"
    " ON CONFLICT (message_id, plugin_name) DO UPDATE SET state = 'waiting', attempts = 0, problem = NULL,"
    " not_before_ms = excluded.not_before_ms, queued_at = excluded.queued_at WHERE attempts > 0"
)
_DUE: Final = (
    f"SELECT {', '.join('m.' + column for column in MESSAGE_COLUMNS.split(', '))}"
    " FROM jobs AS j JOIN messages AS m ON m.id = j.message_id"
    " WHERE j.plugin_name = ? AND j.state = 'waiting' AND j.not_before_ms <= ?"
    " ORDER BY j.not_before_ms, j.id LIMIT ?"
)
_NEXT: Final = (
    "SELECT not_before_ms FROM jobs WHERE plugin_name = ? AND state = 'waiting' AND not_before_ms > ?"
    " ORDER BY not_before_ms LIMIT 1"
)
_COUNT: Final = (
    "SELECT count(*), min(queued_at) FROM (SELECT queued_at FROM jobs WHERE plugin_name = ? AND state = ? LIMIT ?)"
)
_THIS: Final = "message_id = ? AND plugin_name = ?"


class Queue(NamedTuple):
    """Which plugins want to see messages, and how long an edit waits for the next one."""

    plugins: tuple[str, ...] = ()
    settle_ms: int = 0


NO_QUEUE: Final = Queue()


class Job(NamedTuple):
    """A plugin, and the message as it was read for a run."""

    plugin_name: str
    message: Message


class Backlog(NamedTuple):
    """How much of a plugin's work is not done. Counts stop at ``COUNTED_MAX``."""

    waiting: int
    failed: int
    oldest_waiting_seconds: float


Verdict = Literal["stored", "failed", "stale", "gone"]
"""What became of a run: kept, counted as a failure, of an older version and to be done again, or of a message that was
deleted."""


def queue_new(tx: Tx, queue: Queue, message_id: str) -> None:
    """A message was posted: its plugins run at once."""
    for plugin in queue.plugins:
        tx.db.execute(_QUEUE, (message_id, plugin, tx.now_ms, tx.ts))


def queue_edited(tx: Tx, queue: Queue, message_id: str) -> None:
    """A message was edited: its plugins run once the edits have settled."""
    for plugin in queue.plugins:
        tx.db.execute(_QUEUE, (message_id, plugin, tx.now_ms + queue.settle_ms, tx.ts))


def queue_history(tx: Tx, plugins: Sequence[str], after: int, until: int) -> int:
    """Queues the messages that events in ``(after, until]`` posted or edited; how many jobs that made."""
    before = tx.db.total_changes()
    tx.db.execute(_QUEUE_HISTORY, (tx.now_ms, tx.ts, encode_json(plugins).decode(), after, until))
    return tx.db.total_changes() - before


def end_jobs(tx: Tx, message_id: str) -> None:
    """A message was deleted: no plugin looks at it any more."""
    tx.db.execute("DELETE FROM jobs WHERE message_id = ?", (message_id,))


def drop_jobs_of_others(tx: Tx, plugins: Iterable[str]) -> int:
    """Removes the jobs of plugins that are no longer configured; how many there were."""
    before = tx.db.total_changes()
    known = encode_json(list(plugins)).decode()
    tx.db.execute("DELETE FROM jobs WHERE plugin_name NOT IN (SELECT value FROM json_each(?))", (known,))
    return tx.db.total_changes() - before


def due_jobs(db: apsw.Connection, plugin: str, now_ms: int, limit: int) -> list[Job]:
    """The jobs whose time has come, longest waiting first."""
    first = next_due_ms(db, plugin, after_ms=0)
    if first is None:
        return []
    rows: Any = db.execute(_DUE, (plugin, now_ms if first <= now_ms + WAIT_MS_MAX else first, limit))
    return [Job(plugin, Message(*columns)) for columns in rows]


def next_due_ms(db: apsw.Connection, plugin: str, after_ms: int) -> int | None:
    """When the first job is due of those that are due after a time; None if there is none."""
    row: Any = db.execute(_NEXT, (plugin, after_ms)).fetchone()
    return None if row is None else row[0]


def plugins_with_jobs(db: apsw.Connection) -> list[str]:
    """The plugins that have jobs; none in a file from before there were any."""
    if not columns_there(db, "jobs", ("id",)):
        return []
    return [str(name) for (name,) in db.execute("SELECT DISTINCT plugin_name FROM jobs ORDER BY plugin_name")]


def backlog(db: apsw.Connection, plugin: str, now_ms: int) -> Backlog:
    """What waits and what failed."""
    waiting, oldest = _count(db, plugin, "waiting")
    failed, _ = _count(db, plugin, "failed")
    age_ms = 0 if oldest is None else max(0, now_ms - parse_iso(oldest))
    return Backlog(waiting, failed, age_ms / 1000)


def _count(db: apsw.Connection, plugin: str, state: str) -> tuple[int, str | None]:
    row: Any = db.execute(_COUNT, (plugin, state, COUNTED_MAX)).fetchone()
    return row


def store_enrichments(tx: Tx, job: Job, found: Sequence[Enrichment], settle_ms: int = 0) -> Verdict:
    """Replaces what the plugin had found in the message before, if the message is still the one that it read."""
    message = _still_there(tx, job, settle_ms)
    if not isinstance(message, Message):
        return message
    replace_enrichments(tx, message, job.plugin_name, found)
    _done(tx, job)
    return "stored"


def store_attachments(tx: Tx, job: Job, found: Sequence[tuple[AddAttachment, str]], settle_ms: int = 0) -> Verdict:
    """Adds what the plugin extracted to the message's topic, each with its canonical text, unless it is there."""
    message = _still_there(tx, job, settle_ms)
    if not isinstance(message, Message):
        return message
    add_attachments(tx, message, found)
    _done(tx, job)
    return "stored"


def job_failed(tx: Tx, job: Job, problem: str, *, attempts_max: int, retry_ms: int, settle_ms: int = 0) -> Verdict:
    """Counts an attempt and says when the next one is due, or that there is none."""
    message = _still_there(tx, job, settle_ms)
    if not isinstance(message, Message):
        return message
    row: Any = tx.db.execute(f"SELECT attempts FROM jobs WHERE {_THIS}", (message.id, job.plugin_name)).fetchone()
    before: int = 0 if row is None else row[0]
    state = "failed" if before + 1 >= attempts_max else "waiting"
    due_ms = tx.now_ms + min(retry_ms * 2 ** min(before, 32), WAIT_MS_MAX)
    tx.db.execute(
        f"UPDATE jobs SET state = ?, attempts = ?, problem = ?, not_before_ms = ? WHERE {_THIS}",
        (state, before + 1, problem[:PROBLEM_CHARS_MAX], due_ms, message.id, job.plugin_name),
    )
    return "failed"


def _still_there(tx: Tx, job: Job, settle_ms: int) -> Message | Literal["stale", "gone"]:
    """The message, if it is the version that the plugin read; inside the transaction, so nothing comes in between."""
    message = queries.get_message(tx.db, job.message.id)
    if message is None or message.deleted_at is not None:
        _done(tx, job)
        return "gone"
    if message.version == job.message.version:
        return message
    # Whoever edits while the plugin runs may not be done; to run again at once would cost a run for each edit.
    tx.db.execute(
        f"UPDATE jobs SET not_before_ms = max(not_before_ms, ?) WHERE {_THIS}",
        (tx.now_ms + settle_ms, message.id, job.plugin_name),
    )
    return "stale"


def _done(tx: Tx, job: Job) -> None:
    tx.db.execute(f"DELETE FROM jobs WHERE {_THIS}", (job.message.id, job.plugin_name))
