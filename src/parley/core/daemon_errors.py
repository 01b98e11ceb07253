"""What only a daemon says no with, over its local API or when it starts.

::

    Refused
    ├── OutboxConflict           ├── IdempotencyKeyConflict   ├── MeshRequired
    ├── MeshNotAttached          ├── DestinationUnknown       ├── NoMeshJoined
    ├── TokenInQuery             ├── HookRefused              ├── MetaKeyRepeated
    ├── RowNotFound              (a NotFound with another hint)
    └── RowSpent                 (an IdempotencyKeyReused with another hint)
    Unavailable
    ├── DaemonBusy               ├── TooManyStreams           ├── InsufficientStorage
    ├── MeshUnreachable          ├── MeshKeyMissing
    ├── BrokerUnreachable        (a MeshUnreachable with another hint)
    ├── OutboxDamaged            (a DatabaseCorrupt with another hint)
    └── MembershipsDamaged       (another one)
    LocalError
    ├── DaemonNotRunning         ├── HostMismatch             ├── FeatureRefused
    ├── MembershipLost
    ├── ConnectionEnded          (a MembershipLost with another hint)
    └── DaemonRunning            (a WriterLockHeld with another hint)
"""

from parley.core.errors import (
    DatabaseCorrupt,
    IdempotencyKeyReused,
    LocalError,
    NotFound,
    Refused,
    Unavailable,
    WriterLockHeld,
)
from parley.core.exits import Exit


class OutboxDamaged(DatabaseCorrupt):
    """The outbox cannot be read, or is gone; the daemon does not start without it."""

    spoken_by = "daemon"
    hint = "`parley daemon recover` saves what can be read of it; `parley daemon restore` puts a backup in its place."


class MembershipsDamaged(DatabaseCorrupt):
    """memberships.json, which holds the keys, cannot be read; the daemon does not start without it."""

    spoken_by = "daemon"
    hint = "`parley daemon restore` puts a backup in its place; without one, remove the file and join anew."


class RowNotFound(NotFound):
    """No such message in the outbox or the inbox."""

    spoken_by = "daemon"
    hint = "`parley daemon outbox list` and `parley daemon inbox list` show what there is."


class RowSpent(IdempotencyKeyReused):
    """The id belongs to the same message, which will not be sent any more as it is; details.reason says why."""

    spoken_by = "daemon"
    hint = "`parley daemon outbox requeue ID` sends it anew under a new id; `… inspect ID` shows what became of it."


class OutboxConflict(Refused):
    """The row is done, retired or in flight, or the new id is taken; nothing was changed."""

    code = "OUTBOX_CONFLICT"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "daemon"
    hint = "`parley daemon outbox inspect ID` shows what became of the row; a row in flight needs --force."


class MetaKeyRepeated(Refused):
    """An object in meta has the same key twice; details.key names it. Nothing was written."""

    code = "META_KEY_REPEATED"
    spoken_by = "daemon"
    hint = "Give each key of meta once: which of two values is meant, readers would decide differently."


class IdempotencyKeyConflict(Refused):
    """The Idempotency-Key header and client_message_id name two different ids."""

    code = "IDEMPOTENCY_KEY_CONFLICT"
    spoken_by = "daemon"
    hint = "Send the id once, or twice the same."


class MeshRequired(Refused):
    """The daemon serves several meshes, and the request fits more than one of them."""

    code = "MESH_REQUIRED"
    spoken_by = "daemon"
    hint = "Name one of details.attached with `mesh`."


class MeshNotAttached(Refused):
    """The daemon's user is not a member of this mesh."""

    code = "MESH_NOT_ATTACHED"
    status = 404
    spoken_by = "daemon"
    hint = "Join it with `parley mesh join INVITE`; `parley mesh list` shows those that are joined."


class HookRefused(Refused):
    """The user's own pre-send hook does not let the message go, or could not be asked."""

    code = "HOOK_REFUSED"
    status = 403
    spoken_by = "daemon"
    hint = "details.reason says why; `parley daemon reload` takes a hook again that was mended."


class DestinationUnknown(Refused):
    """Nobody and nothing in the mesh goes by this name, or more than one does."""

    code = "DESTINATION_UNKNOWN"
    status = 404
    spoken_by = "daemon"
    hint = "Use a member's key or full name, #TOPIC, @GROUP or *; details.candidates names what it could mean."


class NoMeshJoined(Refused):
    """The daemon's user is not a member of any mesh."""

    code = "NO_MESH_JOINED"
    status = 409
    spoken_by = "daemon"
    hint = "Make a mesh with `parley mesh create`, or join one with `parley mesh join INVITE`."


class TokenInQuery(Refused):
    """The request carries a token in its address, where it would be written to logs."""

    code = "TOKEN_IN_QUERY"
    spoken_by = "daemon"
    hint = "Send Authorization: Bearer, and rotate the token that was shown with `parley daemon rotate-token`."


class DaemonBusy(Unavailable):
    """Too many requests are in flight."""

    code = "DAEMON_BUSY"
    status = 429
    spoken_by = "daemon"
    hint = "Wait for an answer before the next request; the limit is ipc.requests_max."


class TooManyStreams(Unavailable):
    """Too many streams of events are open."""

    code = "TOO_MANY_STREAMS"
    status = 429
    spoken_by = "daemon"
    hint = "Close one; the limit is ipc.streams_max."


class InsufficientStorage(Unavailable):
    """The outbox or its disk is nearly full; what is in it is still being sent."""

    code = "INSUFFICIENT_STORAGE"
    status = 507
    spoken_by = "daemon"
    retry_after_seconds = 30.0
    hint = "Free some space, or run `parley daemon outbox prune`; `parley daemon status` shows the sizes."


class MeshUnreachable(Unavailable):
    """The mesh's broker cannot be asked now."""

    code = "MESH_UNREACHABLE"
    status = 502
    spoken_by = "daemon"
    hint = "`parley daemon status` shows each mesh; a message to a key, #TOPIC, @GROUP or * is taken anyway."


class BrokerUnreachable(MeshUnreachable):
    """No broker answers at this address."""

    hint = "Check the address; `parley broker status` on the broker's machine tells whether it runs."


class MeshKeyMissing(Unavailable):
    """No member has given this one the mesh key yet, without which only direct messages can be sent."""

    code = "MESH_KEY_MISSING"
    status = 503
    spoken_by = "daemon"
    hint = "Members that are connected give it; if they do not, join again by the whole text of an invite."


class DaemonNotRunning(LocalError):
    """No daemon of this user answers."""

    code = "DAEMON_NOT_RUNNING"
    exit_code = Exit.UNREACHABLE
    transient = True
    spoken_by = "daemon"
    hint = "Start one with `parley daemon up`."


class HostMismatch(LocalError):
    """The daemon's folder was made on another machine: a copied home, a cloned disk, a restored backup."""

    code = "HOST_MISMATCH"
    exit_code = Exit.HOST_MISMATCH
    spoken_by = "daemon"
    hint = "If only this machine runs it now, say so with `parley daemon accept-host`; else join under a new key."


class FeatureRefused(LocalError):
    """The broker lacks a feature that the daemon cannot do without, or grants less of it than is safe."""

    code = "FEATURE_REFUSED"
    exit_code = Exit.FEATURE_REFUSED
    spoken_by = "daemon"
    hint = "Upgrade the broker, or raise the named parameter there."


class MembershipLost(LocalError):
    """The member was removed or banned, or the same member runs elsewhere."""

    code = "MEMBERSHIP_LOST"
    exit_code = Exit.MEMBERSHIP_LOST
    spoken_by = "daemon"
    hint = (
        "Ask an admin for a new invite and join by it, or `parley mesh leave`;"
        " if the member runs elsewhere, stop one of the two."
    )


class ConnectionEnded(MembershipLost):
    """An admin closed the connection; the member is still one."""

    hint = "`parley daemon up` connects again."


class DaemonRunning(WriterLockHeld):
    """A daemon of this user runs already. It is the same refusal, but another way out."""

    spoken_by = "daemon"
    hint = "Use the running daemon, or stop it with `parley daemon down`."
