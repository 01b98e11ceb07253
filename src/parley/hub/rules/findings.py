"""What plugins find, as rows and events: stored by a job of the hub, or by somebody who ran the plugin elsewhere.

Both go through the same two functions. An event tells of each change, also when a plugin's new set is empty, so that
the log alone rebuilds the tables. Finding again what is there already changes nothing and is no event; so repeating a
request is harmless even without a key.
"""

from collections.abc import Sequence
from typing import Any, Final

from parley.core import ids
from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput, MessageDeleted, NotFound, VersionConflict
from parley.hub.rules.attachments import attach
from parley.hub.rules.channels import topic_of
from parley.hub.rules.idempotency import Once, earlier, remember
from parley.hub.transaction import Tx
from parley.plugin.validate import Findings, check_attachments, check_enrichments
from parley.wire.answers import FindingsResult
from parley.wire.entities import Message
from parley.wire.events import Enrichment, MessageEnriched
from parley.wire.requests import AddAttachment, StoreFindings
from parley.workspace import queries
from parley.workspace.log import Draft

_FOUND_BEFORE: Final = (
    "SELECT kind, span_start, span_end, data_json, outdated FROM enrichments WHERE message_id = ? AND plugin_name = ?"
)


def replace_enrichments(tx: Tx, message: Message, plugin: str, found: Sequence[Enrichment]) -> int | None:
    """Puts what the plugin found in the place of what it had found before; the event, or None if nothing changed."""
    rows = [(each.kind, each.span.start, each.span.end, canonical_json(each.data).decode(), 0) for each in found]
    before: list[Any] = tx.db.execute(_FOUND_BEFORE, (message.id, plugin)).fetchall()
    if sorted(rows) == sorted(before):
        return None
    tx.db.execute("DELETE FROM enrichments WHERE message_id = ? AND plugin_name = ?", (message.id, plugin))
    new = [tx.new_id(ids.ENRICHMENT) for _ in rows]
    tx.db.executemany(
        "INSERT INTO enrichments (id, message_id, plugin_name, kind, span_start, span_end, data_json, outdated,"
        " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(each, message.id, plugin, *row, tx.ts) for each, row in zip(new, rows, strict=True)],
    )
    data = MessageEnriched(message.id, plugin, list(found), new, message.version)
    return tx.append(
        Draft("message.enriched", message.id, data, channel_id=message.channel_id, topic_id=message.topic_id)
    )


def add_attachments(tx: Tx, message: Message, found: Sequence[tuple[AddAttachment, str]]) -> int | None:
    """Adds what the plugin extracted to the message's topic, each with its canonical text, unless it is there; the last
    event, or None if all of it was."""
    topic = topic_of(tx.db, message.topic_id)
    last = None
    for request, value_text in found:
        event_id = attach(tx, topic, request, value_text, message.id).event_id
        last = event_id if event_id is not None else last
    return last


def store_findings(
    tx: Tx, message_id: str, request: StoreFindings, bytes_max: int, once: Once | None = None
) -> FindingsResult:
    """Stores what was found elsewhere, if the message is still the one that was read.

    A job of the hub that waits for this plugin and message stays: who calls may say anything in the plugin's name, and
    the hub's own run finds what is there, or puts it right.
    """
    about = (message_id, request.plugin_name, request.version)
    if (before := earlier(tx, once)) is not None:
        return FindingsResult(*about, before.event_id, duplicate=True)
    message = _as_read(tx, message_id, request.version)
    findings = _checked(message, request, bytes_max)
    event_id = None
    if request.enrichments is not None:
        event_id = replace_enrichments(tx, message, request.plugin_name, findings.enrichments)
    if findings.attachments:
        texts = [(each, canonical_json(each.value_json).decode()) for each in findings.attachments]
        event_id = add_attachments(tx, message, texts) or event_id
    remember(tx, once, "findings.store", message_id, event_id)
    return FindingsResult(*about, event_id)


def _as_read(tx: Tx, message_id: str, version: int) -> Message:
    """The message, if it is the version that was read; inside the transaction, so nothing comes in between."""
    message = queries.get_message(tx.db, message_id)
    if message is None:
        raise NotFound(f"Message not found: {message_id}", message_id=message_id)
    if message.deleted_at is not None:
        raise MessageDeleted("Nothing is found in a deleted message", message_id=message_id)
    if message.version != version:
        raise VersionConflict(message_id, expected=version, current=message.version)
    return message


def _checked(message: Message, request: StoreFindings, bytes_max: int) -> Findings:
    """What was found, if it keeps the rules that a plugin's own results have to keep. Raises ``InvalidInput``."""
    field = "enrichments"
    try:
        enrichments = check_enrichments(message, request.enrichments or (), bytes_max, field).enrichments
        field = "attachments"
        attachments = check_attachments(message, request.attachments or (), bytes_max, field).attachments
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field) from None
    return Findings(enrichments, attachments)
