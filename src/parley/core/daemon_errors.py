"""The refusals that only a daemon gives, over its local API or when it starts.

::

    Refused
    ├── OutboxConflict           ├── IdempotencyKeyConflict   ├── MeshRequired
    ├── MeshNotAttached          ├── DestinationUnknown       ├── NoMeshJoined
    ├── TokenInQuery             ├── HookRefused              ├── MetaKeyRepeated
    ├── RosterSplit              ├── NameTaken
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
    ├── DaemonLate               (an AnswerLate with another hint)
    ├── ConnectionEnded          (a MembershipLost with another hint)
    └── DaemonRunning            (a WriterLockHeld with another hint)
"""

from collections.abc import Mapping
from typing import Final

from parley.core.errors import (
    AnswerLate,
    DatabaseCorrupt,
    HostForbidden,
    IdempotencyKeyReused,
    InvalidAuth,
    LocalError,
    MissingAuth,
    NotFound,
    OriginForbidden,
    ParleyError,
    RateLimited,
    Refused,
    ServiceUnavailable,
    ShuttingDown,
    Unavailable,
    WriterLockHeld,
)
from parley.core.exits import Exit

_HINTS: Final[Mapping[type[ParleyError], str]] = {
    NotFound: "Check the id or the path; `GET /openapi.json` describes every route.",
    MissingAuth: "Send Authorization: Bearer with the token from `local-token`, or use the unix socket.",
    InvalidAuth: "Read `local-token` again; the token may have been rotated.",
    HostForbidden: "Call the daemon by 127.0.0.1, [::1] or localhost, with its port or none.",
    OriginForbidden: "Call the daemon from a program, not from a web page.",
    RateLimited: "Wait for the time in Retry-After, or raise ipc.rate_per_second in daemon.toml.",
    ServiceUnavailable: "Nothing was written. Try again after Retry-After; `parley daemon status` shows what is wrong.",
    ShuttingDown: "Try again when the daemon is back.",
    DatabaseCorrupt: "Stop the daemon, then run `parley daemon recover`, which saves what can be read.",
}
"""Hints for the errors that every server has, where those in ``errors`` speak of a hub."""


def daemon_hint(error: ParleyError) -> str:
    """What to do next about an error that the daemon answers with. A hint made for this very error is kept."""
    return _HINTS.get(type(error), error.hint) if error.hint == type(error).hint else error.hint


class OutboxDamaged(DatabaseCorrupt):
    """The outbox cannot be read, or is gone; the daemon does not start without it."""

    spoken_by = "daemon"
    hint = "`parley daemon recover` saves what can be read of it; `parley daemon restore` puts a backup in its place."


class MembershipsDamaged(DatabaseCorrupt):
    """memberships.json, which holds the keys, cannot be read; the daemon does not start without it."""

    spoken_by = "daemon"
    hint = "`parley daemon restore` puts a backup in its place; without one, remove the file and join again."


class RowNotFound(NotFound):
    """No such message in the outbox or the inbox."""

    spoken_by = "daemon"
    hint = "`parley daemon outbox list` and `parley daemon inbox list` show what there is."


class RowSpent(IdempotencyKeyReused):
    """The id belongs to this very message, which can no longer be sent under it; details.reason says why."""

    spoken_by = "daemon"
    hint = "`parley daemon outbox requeue ID` sends it again under a new id; `… inspect ID` shows its history."


class OutboxConflict(Refused):
    """The row is done, retired or in flight, or the new id is taken; nothing was changed."""

    code = "OUTBOX_CONFLICT"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "daemon"
    hint = "`parley daemon outbox inspect ID` shows what happened to the row; a row in flight needs --force."


class MetaKeyRepeated(Refused):
    """An object in meta has the same key twice; details.key names it. Nothing was written."""

    code = "META_KEY_REPEATED"
    spoken_by = "daemon"
    hint = "Give each key in meta only once; readers would disagree about which of the two values counts."


class IdempotencyKeyConflict(Refused):
    """The Idempotency-Key header and client_message_id name two different ids."""

    code = "IDEMPOTENCY_KEY_CONFLICT"
    spoken_by = "daemon"
    hint = "Send only one of the two, or the same id in both."


class MeshRequired(Refused):
    """The daemon serves several meshes, and the request fits more than one of them."""

    code = "MESH_REQUIRED"
    spoken_by = "daemon"
    hint = "Set `mesh` to one of the meshes in details.attached."


class MeshNotAttached(Refused):
    """The daemon's user is not a member of this mesh."""

    code = "MESH_NOT_ATTACHED"
    status = 404
    spoken_by = "daemon"
    hint = "Join it with `parley mesh join INVITE`; `parley mesh list` shows the meshes that you have joined."


class HookRefused(Refused):
    """The user's own pre-send hook refused the message, or could not run."""

    code = "HOOK_REFUSED"
    status = 403
    spoken_by = "daemon"
    hint = "details.reason says why; once the hook is fixed, run `parley daemon reload`."


class DestinationUnknown(Refused):
    """No member, topic or group of the mesh has this name, or more than one does."""

    code = "DESTINATION_UNKNOWN"
    status = 404
    spoken_by = "daemon"
    hint = "Use a member's key or full name, #TOPIC, @GROUP or *; details.candidates lists the possible matches."


class NoMeshJoined(Refused):
    """The daemon's user is not a member of any mesh."""

    code = "NO_MESH_JOINED"
    status = 409
    spoken_by = "daemon"
    hint = "Create a mesh with `parley mesh create`, or join one with `parley mesh join INVITE`."


class NameTaken(Refused):
    """Somebody in the mesh is called so, or was until lately; or the name stands for something else."""

    code = "NAME_TAKEN"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "daemon"
    hint = "Choose another name, with `--name`; a name that was given up is free again after 30 days."


class RosterSplit(Refused):
    """The broker has shown different members different rosters of this mesh. Nothing is sent or changed there."""

    code = "ROSTER_SPLIT"
    status = 409
    exit_code = Exit.DAMAGE
    spoken_by = "daemon"
    hint = "`parley mesh info` shows both; an owner decides which one counts, with `parley mesh settle`."


class TokenInQuery(Refused):
    """The request has a token in its URL, where it would end up in logs."""

    code = "TOKEN_IN_QUERY"
    spoken_by = "daemon"
    hint = "Send the token as Authorization: Bearer, and replace the exposed one with `parley daemon rotate-token`."


class DaemonBusy(Unavailable):
    """Too many requests are in flight."""

    code = "DAEMON_BUSY"
    status = 429
    spoken_by = "daemon"
    hint = "Wait for an answer before the next request; the limit is ipc.requests_max."


class TooManyStreams(Unavailable):
    """Too many event streams are open."""

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
    """The mesh's broker cannot be reached right now."""

    code = "MESH_UNREACHABLE"
    status = 502
    spoken_by = "daemon"
    hint = "`parley daemon status` shows each mesh; a message to a key, #TOPIC, @GROUP or * is accepted all the same."


class BrokerUnreachable(MeshUnreachable):
    """No broker answers at this address."""

    hint = "Check the address; `parley broker status` on the broker's machine shows whether it is running."


class MeshKeyMissing(Unavailable):
    """No member has handed over the mesh key yet; without it only direct messages can be sent."""

    code = "MESH_KEY_MISSING"
    status = 503
    spoken_by = "daemon"
    hint = "Any connected member hands it over; if none does, join again with the full text of an invite."


class DaemonNotRunning(LocalError):
    """No daemon of this user answers."""

    code = "DAEMON_NOT_RUNNING"
    exit_code = Exit.UNREACHABLE
    transient = True
    spoken_by = "daemon"
    hint = "Start one with `parley daemon up`."


class DaemonLate(AnswerLate):
    """The daemon is there, but did not answer in time."""

    spoken_by = "daemon"
    hint = "`parley daemon status` shows what it is busy with; a message that was given an id can be sent again."


class HostMismatch(LocalError):
    """The daemon's folder was made on another machine: a copied home, a cloned disk, a restored backup."""

    code = "HOST_MISMATCH"
    exit_code = Exit.HOST_MISMATCH
    spoken_by = "daemon"
    hint = "If the daemon runs only here now, run `parley daemon accept-host`; otherwise join again under a new key."


class FeatureRefused(LocalError):
    """The broker lacks a feature that the daemon requires, or offers less of it than is safe."""

    code = "FEATURE_REFUSED"
    exit_code = Exit.FEATURE_REFUSED
    spoken_by = "daemon"
    hint = "Upgrade the broker, or raise the named parameter there."


class MembershipLost(LocalError):
    """The member was removed or banned, or is running elsewhere."""

    code = "MEMBERSHIP_LOST"
    exit_code = Exit.MEMBERSHIP_LOST
    spoken_by = "daemon"
    hint = (
        "Ask an admin for a new invite and join with it, or run `parley mesh leave`;"
        " if the member is running elsewhere, stop one of the two daemons."
    )


class ConnectionEnded(MembershipLost):
    """An admin closed the connection; the membership continues."""

    hint = "`parley daemon up` connects again."


class DaemonRunning(WriterLockHeld):
    """A daemon of this user is already running: the same refusal with a different remedy."""

    spoken_by = "daemon"
    hint = "Use the running daemon, or stop it with `parley daemon down`."
