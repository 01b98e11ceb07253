"""What only the bus fails with: its keys and certificates, the lines that enrol a machine, its envelopes, its stores.

Every error of the bus is a ``BusError``, so a caller can catch them together. Those of a store are its own; of the
others the second parent says which branch of the tree of ``errors`` each belongs to::

    BusError
    ├── Refused                  the other side must change something
    │   ├── LineInvalid          ├── ChainInvalid          ├── StatementInvalid
    │   ├── OtherUser            ├── Revoked               ├── TopicRefused
    │   ├── CallsExhausted       ├── EnvelopeInvalid       ├── WrongRecipient
    │   ├── FrameTooLarge        ├── PayloadUnreadable     ├── RevocationsFull
    │   ├── LinkInvalid          ├── Replayed              ├── ReplyUnasked
    │   ├── CallsUncounted       ├── NoSubscriber          ├── HandlerFailed
    │   ├── PeerRefused          └── PairingFailed
    ├── Unavailable              the same call may work later
    │   ├── CertificateExpired   ├── PeerUnreachable       ├── ChannelClosed
    │   ├── PeerBusy             ├── NotAcknowledged       ├── NoReply
    │   ├── NoHandler            └── PairingMissed
    ├── LocalError               never told to a peer
    │   ├── NoIdentity           ├── UserKeyMissing        ├── FileUnsafe
    │   ├── FileDamaged          ├── ListenRefused         └── BusClosed
    └── StoreError               of a ``MeshStore``, never told to a peer
        ├── StoreInputInvalid    ├── OutboxFull            ├── MessageIdReused
        ├── SequenceRefused      ├── StoreClosed           ├── StoreLocked
        ├── StoreForeign         ├── StoreTooNew           ├── StoreMigrationFailed
        ├── StoreUnusable        ├── StoreUnavailable      ├── StoreDamaged
        └── StoreLost            └── StoreFailed
"""

from parley.core.errors import LocalError, ParleyError, Refused, Unavailable
from parley.core.exits import Exit


class BusError(ParleyError):
    """Base of everything that the bus raises."""

    spoken_by = "bus"


class LineInvalid(BusError, Refused):
    """A line that was pasted is no request, grant or statement: cut off, changed, too long, or something else."""

    code = "BUS_LINE_INVALID"
    hint = "Copy the whole line again, from `parley-bus-` to its end."


class ChainInvalid(BusError, Refused):
    """The certificates are malformed, are not signed by whom they name, or allow more than their issuer was allowed."""

    code = "BUS_CHAIN_INVALID"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = "Enrol the machine again: `parley bus request` there, `parley bus issue` where the user key is."


class StatementInvalid(BusError, Refused):
    """A statement of revocations is malformed, or is not signed by the user whom it names."""

    code = "BUS_STATEMENT_INVALID"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = "Take the statement that `parley bus revoke` printed on the machine with the user key."


class OtherUser(BusError, Refused):
    """The certificate, statement or envelope comes from another user, and the bus trusts only its own."""

    code = "BUS_OTHER_USER"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = "Compare `parley bus whoami` on both machines; PARLEY_BUS_HOME names another folder for another user."


class CertificateExpired(BusError, Unavailable):
    """A certificate of the chain has expired. It can be renewed, so the refusal is transient."""

    code = "BUS_EXPIRED"
    exit_code = Exit.UNAUTHORISED
    retry_after_seconds = 60.0
    hint = "Renew it: `parley bus request` there, `parley bus issue` where the user key is, `parley bus accept` there."


class PeerUnreachable(BusError, Unavailable):
    """The peer was not found, did not answer in time, or somebody else answered where it should be."""

    code = "BUS_PEER_UNREACHABLE"
    hint = "See that it runs and is on the same network; `details.tried` has the addresses that were tried."


class ChannelClosed(BusError, Unavailable):
    """The connection to the peer ended."""

    code = "BUS_CHANNEL_CLOSED"
    hint = "Try again: the bus connects anew."


class Revoked(BusError, Refused):
    """The user revoked a key of the chain, or every certificate of its generation."""

    code = "BUS_REVOKED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = (
        "Enrol the machine again; one whose own key was revoked needs a new one, so move agent.key and grant out of"
        " its folder first."
    )


class TopicRefused(BusError, Refused):
    """The certificate does not allow this topic."""

    code = "BUS_TOPIC_REFUSED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = "Use a topic that `parley bus verify` shows, or have a certificate issued that allows this one."


class CallsExhausted(BusError, Refused):
    """The certificate allows no more calls to this peer."""

    code = "BUS_CALLS_EXHAUSTED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = "Have a new certificate issued."


class EnvelopeInvalid(BusError, Refused):
    """The bytes are no envelope, were changed on their way, or were not signed by the sender that they name."""

    code = "BUS_ENVELOPE_INVALID"
    hint = "Send it again; if that fails too, upgrade the older of the two."


class WrongRecipient(BusError, Refused):
    """The envelope is addressed to another agent."""

    code = "BUS_WRONG_RECIPIENT"
    status = 403
    hint = "Send it to the agent that it is addressed to."


class FrameTooLarge(BusError, Refused):
    """The envelope is larger than a frame may be."""

    code = "BUS_FRAME_TOO_LARGE"
    status = 413
    hint = "Send less at once."


class PayloadUnreadable(BusError, Refused):
    """The payload is sealed, and not to this agent by this sender under this message id."""

    code = "BUS_PAYLOAD_UNREADABLE"
    hint = "Send the message again, sealed to the key that the recipient has now."


class RevocationsFull(BusError, Refused):
    """There is no room for another revocation."""

    code = "BUS_REVOCATIONS_FULL"
    status = 409
    hint = "Run `parley bus revoke --all`, which ends every certificate, and enrol again those who stay."


class LinkInvalid(BusError, Refused):
    """A frame is not one that a peer may send, or not now."""

    code = "BUS_LINK_INVALID"
    hint = "Upgrade the older of the two."


class Replayed(BusError, Refused):
    """The very same envelope came before."""

    code = "BUS_REPLAYED"
    status = 409
    hint = "Send the message in an envelope of its own; the bus does so by itself at each try."


class ReplyUnasked(BusError, Refused):
    """A reply to a request that was not made, not to this peer, or that nobody waits for any more."""

    code = "BUS_REPLY_UNASKED"
    status = 409
    hint = "Nothing needs to be done; give a request a longer timeout if its answers come late."


class CallsUncounted(BusError, Refused):
    """The certificate counts calls, and this peer's store forgets them at a restart."""

    code = "BUS_CALLS_UNCOUNTED"
    status = 403
    hint = "Give the peer a durable store, or have a certificate issued that does not count calls."


class NoSubscriber(BusError, Refused):
    """The peer does not subscribe to the topic."""

    code = "BUS_NO_SUBSCRIBER"
    status = 404
    hint = "Subscribe there; what waits in an outbox for that is tried again when the peer tells of a new topic."


class HandlerFailed(BusError, Refused):
    """The peer's handler raised an exception; its own log says which."""

    code = "BUS_HANDLER_FAILED"
    hint = "Look into the log of the peer."


class PeerRefused(BusError, Refused):
    """The peer refused the message for a reason that this version does not know; `details.told` has its code."""

    code = "BUS_PEER_REFUSED"
    hint = "Upgrade the older of the two."


class PeerBusy(BusError, Unavailable):
    """The peer cannot take a message now: its inbox is full, its store cannot write, or it is about to close."""

    code = "BUS_PEER_BUSY"
    hint = "Try again in a moment."


class NotAcknowledged(BusError, Unavailable):
    """The peer did not acknowledge the message in time. It may have it."""

    code = "BUS_NOT_ACKNOWLEDGED"
    hint = "Send it again under the same message id: a peer that has it takes it for the duplicate that it is."


class NoReply(BusError, Unavailable):
    """The peer took the request and did not answer it in time."""

    code = "BUS_NO_REPLY"
    hint = "Ask again, or give the request a longer timeout."


class NoHandler(BusError, Unavailable):
    """The peer has nothing that answers requests on the topic now."""

    code = "BUS_NO_HANDLER"
    hint = "Ask again when its program is up, or look whether both mean the same topic."


class PairingFailed(BusError, Refused):
    """The digits were not confirmed on both sides, or the other side does not keep to what it committed to."""

    code = "BUS_PAIRING_FAILED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    hint = (
        "Run `parley bus pair` on both machines again. If the digits differ again, somebody stands between the two:"
        " carry the lines of `parley bus request` and `parley bus issue` by hand."
    )


class PairingMissed(BusError, Unavailable):
    """No machine to pair with was found in time, or several were."""

    code = "BUS_PAIRING_MISSED"
    hint = (
        "Run `parley bus pair` on the machine where you ran `parley bus keygen`, then on the other one with the address"
        " that the first one printed."
    )


class NoIdentity(BusError, LocalError):
    """This machine has no key for the bus yet, or no certificate for its key."""

    code = "BUS_NO_IDENTITY"
    exit_code = Exit.UNAUTHORISED
    hint = "Run `parley bus keygen` on your first machine, `parley bus request` on every other one."


class UserKeyMissing(BusError, LocalError):
    """Only the machine with the user key can do this."""

    code = "BUS_USER_KEY_MISSING"
    exit_code = Exit.UNAUTHORISED
    hint = "Run it on the machine where you ran `parley bus keygen`."


class FileUnsafe(BusError, LocalError):
    """A file of the bus is a link, belongs to someone else, or can be used by others."""

    code = "BUS_FILE_UNSAFE"
    exit_code = Exit.WORKSPACE_UNSAFE
    hint = "Check who could read or change it; if nobody did, make it yours alone with `chmod 600` (a folder: 700)."


class FileDamaged(BusError, LocalError):
    """A file of the bus cannot be read as what it should be."""

    code = "BUS_FILE_DAMAGED"
    exit_code = Exit.WORKSPACE_UNSAFE
    hint = "Restore it from a backup, or move it aside and enrol this machine again."


class ListenRefused(BusError, LocalError):
    """The bus cannot listen at this address: it is taken, is not one of this machine's, or may not be used."""

    code = "BUS_LISTEN_REFUSED"
    hint = "Name another port or another address of this machine."


class BusClosed(BusError, LocalError):
    """The bus was closed."""

    code = "BUS_CLOSED"
    hint = "Bind a new one."


class StoreError(BusError):
    """Base of everything that a store of the bus raises."""

    on_wire = False


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
