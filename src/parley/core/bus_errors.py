"""The failures of the bus. They never cross the wire as errors of HTTP do; what a peer is told are codes of its own.

::

    ParleyError
    └── BusError
        └── StoreError               of a ``MeshStore``
            ├── StoreInputInvalid        ├── OutboxFull               ├── MessageIdReused
            ├── SequenceRefused          ├── StoreClosed              ├── StoreLocked
            ├── StoreForeign             ├── StoreTooNew              ├── StoreMigrationFailed
            ├── StoreUnusable            ├── StoreUnavailable         ├── StoreDamaged
            └── StoreLost                └── StoreFailed
"""

from parley.core.errors import ParleyError
from parley.core.exits import Exit


class BusError(ParleyError):
    """Base of everything that the bus raises."""

    on_wire = False
    spoken_by = "bus"


class StoreError(BusError):
    """Base of everything that a store of the bus raises."""


class StoreInputInvalid(StoreError):
    """A fingerprint, nonce, id or time that was given to the store has the wrong length or range."""

    code = "BUS_STORE_INPUT_INVALID"
    hint = "Correct the named argument; nothing was changed."


class OutboxFull(StoreError):
    """The outbox holds as many items or bytes as it may, for this peer or in all. The message was not taken."""

    code = "BUS_OUTBOX_FULL"
    transient = True
    hint = "Send again once peers have taken what waits for them, or remove messages from the outbox."


class MessageIdReused(StoreError):
    """The outbox already holds another message under this id."""

    code = "BUS_MESSAGE_ID_REUSED"
    exit_code = Exit.CONFLICT
    hint = "Use a new id for a new message; a retry must repeat the first one unchanged."


class SequenceRefused(StoreError):
    """The counter of sent messages would jump further than it may, or has come to its end."""

    code = "BUS_SEQUENCE_REFUSED"
    hint = (
        "If the store was restored from a very old backup, issue a new agent key and start with a new store;"
        " otherwise the peer that asked for the jump is at fault."
    )


class StoreClosed(StoreError):
    """The store was closed and takes no more calls."""

    code = "BUS_STORE_CLOSED"
    hint = "Open the store again."


class StoreLocked(StoreError):
    """Another process, or another bus of this one, has the store open."""

    code = "BUS_STORE_LOCKED"
    exit_code = Exit.ALREADY_RUNNING
    hint = "Use the bus that runs there, or stop it; two on one store would repeat sequences."


class StoreForeign(StoreError):
    """The store belongs to another agent or another user."""

    code = "BUS_STORE_FOREIGN"
    exit_code = Exit.CONFLICT
    hint = "Open it with the agent's key that it was made with, or name another file; each agent has its own store."


class StoreTooNew(StoreError):
    """A newer Parley wrote the store."""

    code = "BUS_STORE_TOO_NEW"
    exit_code = Exit.SCHEMA_TOO_NEW
    hint = "Upgrade with `pip install -U parley-mesh`."


class StoreMigrationFailed(StoreError):
    """A change of the store's schema failed; the store is as it was before."""

    code = "BUS_STORE_MIGRATION_FAILED"
    exit_code = Exit.MIGRATION_FAILED
    hint = "The named backup holds the store as it was before the attempt."


class StoreUnusable(StoreError):
    """The store's file or its folder is not there, is not a regular file, or may not be read and written."""

    code = "BUS_STORE_UNUSABLE"
    exit_code = Exit.WORKSPACE_UNSAFE
    hint = "Check the path, its owner and its mode."


class StoreUnavailable(StoreError):
    """The store cannot write now: the disk is full or failed, or too many writes wait. Nothing was written."""

    code = "BUS_STORE_UNAVAILABLE"
    transient = True
    hint = "Free some space or check the disk, then try again; details.reason says what is wrong."


class StoreDamaged(StoreError):
    """The store's file is damaged; it answers for nothing any more."""

    code = "BUS_STORE_DAMAGED"
    exit_code = Exit.CORRUPT
    hint = "Restore a backup, or move the file away; then issue a new agent key, as the marks of peers are gone."


class StoreLost(StoreError):
    """The store's files were removed, replaced or cut short while it was open; it answers for nothing any more."""

    code = "BUS_STORE_LOST"
    exit_code = Exit.WORKSPACE_UNSAFE
    hint = "Put the named file back as it was, or restore a backup, then open the store again."


class StoreFailed(StoreError):
    """A bug in the store. Nothing was changed."""

    code = "BUS_STORE_FAILED"
    hint = "Report it with the message and details."
