"""Every check of a broker: its stable id, what it holds to be true, and what to make of it when it is not.

The orphan check is the broker's own, whose findings a crash or a sweep cannot cause.
"""

from typing import Final

from parley.core.orphans import CHECKS as ORPHANS
from parley.pipeline.audit.checks import Check

_FOREIGN: Final = "Something other than the broker wrote to the store, or rows were lost."
_RESTORE: Final = "Compare with a backup and with bronze; `parley broker restore` puts a backup in the store's place."
_AGAIN: Final = "Fill a new lake with `parley pipeline ingest --lake`, and keep the old one until they were compared."
_WHERE: Final[dict[str, str]] = {
    "id_without_message": "client_message_dedupe",
    "id_without_history": "client_message_dedupe",
    "message_without_id": "message_history",
    "history_without_body": "message_history",
    "body_without_history": "message",
    "body_size_wrong": "message",
    "pruned_but_there": "client_message_dedupe",
    "deliveries_missing": "message_history",
    "delivery_without_message": "delivery_queue",
    "delivery_to_stranger": "delivery_queue",
    "mention_without_message": "mention_index",
    "mention_differs": "delivery_queue",
    "stored_bytes_wrong": "mesh",
}
_SOUND: Final[dict[str, str]] = {
    "id_without_message": "Where an id says that its message is here, the message's body is.",
    "id_without_history": "Where an id says that its message is here, the history has it under the same number.",
    "message_without_id": "Every message has an id by which a retry is recognised.",
    "history_without_body": "Every message of the history has a body.",
    "body_without_history": "Every body belongs to a message of the history, in the same mesh.",
    "body_size_wrong": "Every body is as long as it was when it was accepted.",
    "pruned_but_there": "Where an id says that its message was removed, it is not here.",
    "deliveries_missing": "Every message has a delivery for each of its recipients.",
    "delivery_without_message": "Every delivery is of a message that is there, in the same mesh.",
    "delivery_to_stranger": "Every delivery is for somebody who is or was a member of the mesh.",
    "mention_without_message": "Every mention is of a message that is there, in the mesh of whom it mentions.",
    "mention_differs": "Deliveries and the index of mentions agree on who is mentioned.",
    "stored_bytes_wrong": "Every mesh holds as many bytes as it counts.",
}

PLACES: Final = {f"broker.{name}": place for name, place in _WHERE.items()}
"""The table that a finding of the orphan check is shown in."""
BROKER_CHECKS: Final[dict[str, Check]] = {
    check.id: check
    for check in (
        Check(
            "broker.integrity",
            "SQLite finds the broker's file sound.",
            "The disk failed, the file was copied while it was written, or values were put in that no broker writes.",
            _RESTORE,
        ),
        Check("broker.references", "Every reference from one table to another leads to a row.", _FOREIGN, _RESTORE),
        *(Check(f"broker.{name}", _SOUND[name], _FOREIGN, _RESTORE) for name in ORPHANS),
        Check(
            "broker.id_differs",
            "A message and its id agree on where it went and when it was accepted.",
            _FOREIGN,
            _RESTORE,
        ),
        Check(
            "broker.sender_is_stranger",
            "Every message was sent by somebody who is or was a member of its mesh.",
            _FOREIGN,
            _RESTORE,
        ),
        Check(
            "broker.gap",
            "No number of the history is missing that is too young to be forgotten.",
            "Messages were removed with all their traces by something other than the broker.",
            "Compare with a backup and with bronze. It is asked only of a file that was never restored: a database"
            " leaves out numbers when a transaction is undone.",
        ),
        Check(
            "broker.order",
            "The ids of messages grow with their numbers.",
            "Numbers or ids were changed, or messages put in between.",
            "Compare with a backup and with bronze. It is asked only of a file that was never restored: several"
            " brokers make ids as their clocks have it.",
        ),
        Check(
            "broker.clock",
            "Within a mesh, time does not run backwards.",
            "A broker's clock was set back, or those of several differ. Order never depends on it.",
            "Nothing has to be done.",
            "note",
        ),
        Check(
            "broker.delivery_state",
            "The columns of a delivery fit its state: a lease, how it was received, why it is dead, when it ended.",
            _FOREIGN,
            _RESTORE,
        ),
        Check(
            "broker.delivered_without_attempt",
            "What was delivered was sent at least once.",
            "The delivery was marked past the broker, or its recipient acknowledged what it was never sent.",
            "Ask the recipient whether it has the message; if not, its daemon can ask for all of it again.",
        ),
        Check(
            "broker.audit_chain",
            "The audit log of every mesh is an unbroken chain from its first entry on.",
            "An entry was changed, removed or put in.",
            "Compare with a backup: all before the named entry is as it was written.",
        ),
        Check(
            "bronze.mesh_missing",
            "Bronze has every message up to the cursor of its mesh.",
            "Files of the table were removed, or messages were put into the history behind the cursor.",
            _AGAIN,
        ),
        Check(
            "bronze.mesh_twice",
            "Bronze has each message once.",
            "Something other than the pipeline appended to the table.",
            _AGAIN,
        ),
        Check(
            "bronze.mesh_differs",
            "Bronze has each message as the history has it.",
            "The history was changed after the message was taken, or the table was.",
            _RESTORE,
        ),
        Check(
            "bronze.mesh_unknown",
            "What bronze has and the history has not was removed as too old.",
            "Messages were removed from the history by something other than the broker, or an older copy was put in"
            " its place without `parley broker restore`.",
            _RESTORE,
        ),
        Check(
            "bronze.mesh_pruned",
            "Bronze had every message before the broker removed it.",
            "Messages became too old before the lake had taken them.",
            "Nothing has to be done; run `parley pipeline ingest` more often than the broker forgets.",
            "note",
        ),
    )
}
