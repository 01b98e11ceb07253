"""Every check of the audit: its stable id, what it holds to be true, and what to make of it when it is not.

The documentation's table is made from this one, and so are the words in which a difference is explained.
"""

from typing import Final, Literal, NamedTuple

Severity = Literal["damage", "note"]


class Check(NamedTuple):
    """One thing that is looked at. A ``note`` is worth knowing and no damage."""

    id: str
    sentence: str
    """What holds in a sound hub."""
    cause: str
    """What most likely happened if it does not."""
    remedy: str
    """What a person does then."""
    severity: Severity = "damage"


_RESTORE: Final = "Restore a backup from before, or the rows from the log; the log wins unless it is what was changed."
_FOREIGN: Final = "Something other than the hub wrote to the file."
_LOG: Final = "The log itself was changed, which the hub never does."
_REPAIR: Final = "Stop the hub and run `parley doctor --repair`; else restore a backup."
_ASK: Final = "Compare with a backup or with bronze, which keeps what the log once said."
_AGAIN: Final = "Fill a new lake with `parley pipeline ingest --lake`, and keep the old one until they were compared."

CHECKS: Final[dict[str, Check]] = {
    check.id: check
    for check in (
        Check(
            "sqlite.integrity",
            "SQLite finds the file sound.",
            "The disk, its cable or its memory failed, or the file was copied while it was written.",
            _REPAIR,
        ),
        Check("sqlite.references", "Every reference from one table to another leads to a row.", _FOREIGN, _RESTORE),
        Check(
            "events.gap",
            "Event ids follow each other from 1, or from the end of the last archive, to the end.",
            "Events were removed by something other than `parley archive`.",
            _ASK,
        ),
        Check(
            "events.overlap",
            "No event is in two archives, or in an archive and in the log.",
            "A backup from before the archive was restored over the database.",
            "Keep the archive, and remove from the log what it holds.",
        ),
        Check(
            "events.tail",
            "The newest event that was ever written is still there.",
            "Events were removed from the end of the log: SQLite remembers the largest id it gave.",
            _ASK,
        ),
        Check("events.time", "Every event has a time that can be read.", _LOG, _ASK),
        Check(
            "events.clock",
            "Time does not run backwards.",
            "The machine's clock was set back. Order never depends on it.",
            "Nothing has to be done.",
            "note",
        ),
        Check(
            "event.name",
            "Every event has a name of the catalogue.",
            "A newer Parley wrote it, or something else did.",
            "Audit with the newest Parley.",
        ),
        Check("event.payload", "Every payload is a JSON object with the members that its event must tell.", _LOG, _ASK),
        Check("event.entity", "A payload is about the entity that the event's columns name.", _LOG, _ASK),
        Check(
            "event.reference",
            "What an event refers to exists at that event.",
            "The event that created it was removed or changed, or this one was made up.",
            _ASK,
        ),
        Check("event.twice", "Nothing is created twice.", _LOG, _ASK),
        Check(
            "event.version",
            "The versions of a message follow each other by one.",
            "An event in between was removed or changed.",
            _ASK,
        ),
        Check("event.move", "A move takes a message out of the topic that it is in.", _LOG, _ASK),
        Check(
            "event.generation",
            "A task is taken at its next generation, a lease given at one above all before.",
            "An event in between was removed or changed.",
            _ASK,
        ),
        Check(
            "event.scope",
            "An event carries the scopes that its name demands: the real channel and topic, then.",
            "The scopes were changed, so the event reached the wrong readers.",
            _ASK,
        ),
        Check("event.channel", "A topic, and what is in it, belong to one channel.", _LOG, _ASK),
        Check(
            "state.missing",
            "What the log tells of is in the tables.",
            "A row was removed, or a write was lost while its event was kept.",
            _RESTORE,
        ),
        Check(
            "state.unexplained",
            "What is in the tables was told by the log.",
            "A row was added past the hub, or a write was kept while its event was lost.",
            _RESTORE,
        ),
        Check(
            "state.differs",
            "Every column of the tables is what the log says.",
            "A value was changed past the hub.",
            _RESTORE,
        ),
        Check(
            "attachment.twice",
            "A topic has each attachment once, by its kind, key and dedupe key.",
            _FOREIGN,
            "Tell who wrote it; readers show it twice, and nothing is lost.",
        ),
        Check(
            "key.event",
            "The event of an idempotency key exists.",
            "The event was removed; a retry with the key would be told that it is there.",
            _RESTORE,
        ),
        Check(
            "key.entity",
            "The event of an idempotency key is what its request did, to the entity it names.",
            "The key was changed; a retry would get another's result.",
            _RESTORE,
        ),
        Check(
            "key.twice",
            "Two idempotency keys never share an event.",
            "Two requests were answered with one effect; one of them was lost.",
            "Ask the senders to look.",
        ),
        Check(
            "key.fingerprint",
            "The fingerprint of a posted message's key is that of the message.",
            "The key or the event was changed; a retry would be refused, or another request taken for it.",
            _RESTORE,
        ),
        Check("key.move", "The move of an idempotency key exists.", _FOREIGN, _RESTORE),
        Check("move.reference", "A recorded move names topics and events of moves that exist.", _FOREIGN, _RESTORE),
        Check(
            "job.reference",
            "Plugins wait for messages that exist and are not deleted.",
            _FOREIGN,
            "Restart the hub; it ends jobs of deleted messages when it meets them.",
        ),
        Check(
            "fts.rows",
            "The full-text index has every message and nothing else.",
            "The index or the messages were changed past the hub.",
            _REPAIR,
        ),
        Check(
            "fts.text",
            "The full-text index holds the words of the messages.",
            "A message was changed past the triggers that tell the index.",
            _REPAIR,
        ),
        Check(
            "archive.file",
            "Every recorded archive is there and can be read.",
            "The file was moved or deleted; what came before it cannot be compared.",
            "Put the file back into the folder of archives.",
        ),
        Check(
            "archive.digest",
            "Every archive has the digest that was recorded when it was sealed.",
            "The file was changed after it was sealed.",
            "Put back the file as it was, from a backup.",
        ),
        Check(
            "archive.record",
            "Every archive was told by an event, with the same digest and boundary.",
            _FOREIGN,
            _RESTORE,
        ),
        Check(
            "bronze.missing",
            "Bronze has every event up to its cursor.",
            "Files of the table were removed, or a run of another program moved the cursor.",
            _AGAIN,
        ),
        Check(
            "bronze.twice",
            "Bronze has each event once.",
            "Something other than the pipeline appended to the table.",
            _AGAIN,
        ),
        Check(
            "bronze.differs",
            "Bronze has each event as the log has it.",
            "The hub was restored and went on, or it is a copy; else the log was changed, or the table.",
            _ASK,
        ),
        Check(
            "bronze.unknown",
            "Bronze has no event that the log does not have.",
            "The hub was restored from an older backup, or events were removed from the log.",
            _ASK,
        ),
        Check(
            "bronze.archived",
            "Bronze had every event before it was archived.",
            "Events were archived before the lake had taken them; they are in the archive.",
            "Nothing has to be done; run `parley pipeline ingest` before `parley archive`.",
            "note",
        ),
    )
}

OF_REASON: Final[dict[str, str]] = {
    "unknown_name": "event.name",
    "malformed": "event.payload",
    "wrong_entity": "event.entity",
    "unknown_channel": "event.reference",
    "unknown_topic": "event.reference",
    "unknown_message": "event.reference",
    "unknown_task": "event.reference",
    "unknown_lease": "event.reference",
    "unknown_agent": "event.reference",
    "created_twice": "event.twice",
    "version_jump": "event.version",
    "wrong_topic": "event.move",
    "generation_jump": "event.generation",
}
"""The check that a refusal of the fold belongs to."""
