"""The refusals that only a broker gives, besides those that every server has.

The tree goes on from that of ``errors``::

    Refused
    ├── HelloRefused             ├── MembershipEnded       ├── NotAllowed
    ├── NoSuchDestination       ├── NotSubscribed         ├── RecipientRefuses
    ├── InviteRefused            ├── FeatureUnavailable    ├── ConnectionReplaced
    ├── AlreadyConnected         ├── CreationRefused       ├── OperatorOnly
    ├── UpgradeNeeded            ├── RosterDecides         ├── NoRoster
    ├── RosterRefused            └── RosterClock
    Unavailable
    ├── QuotaExceeded            ├── RosterTooSoon         ├── RosterRestoring
    └── KeyEpochOver
    LocalError
    └── BrokerRunning            (a WriterLockHeld with another hint)
"""

from parley.core.errors import Refused, Unavailable, WriterLockHeld
from parley.core.exits import Exit


class HelloRefused(Refused):
    """The signature of the hello is wrong, or it names no member of the mesh."""

    code = "HELLO_REFUSED"
    status = 401
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "Join the mesh with an invite; a daemon whose key was rotated elsewhere needs the new key."


class MembershipEnded(Refused):
    """The member left the mesh, was removed from it or was banned."""

    code = "MEMBERSHIP_ENDED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "Ask an owner or an admin of the mesh for a new invite."


class NotAllowed(Refused):
    """The member's role does not allow this."""

    code = "NOT_ALLOWED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "Ask an owner or an admin of the mesh to do it, or for the role."


class NoSuchDestination(Refused):
    """No such topic, group or member in this mesh."""

    code = "NO_SUCH_DESTINATION"
    status = 404
    spoken_by = "broker"
    hint = "Check the mesh's members and topics; a topic exists once somebody has subscribed to it."


class NotSubscribed(Refused):
    """Only subscribers may write to a topic."""

    code = "NOT_SUBSCRIBED"
    status = 403
    spoken_by = "broker"
    hint = "Subscribe to the topic, then send again under a new id."


class RecipientRefuses(Refused):
    """The recipient does not accept this kind of message from the sender."""

    code = "RECIPIENT_REFUSES"
    status = 403
    spoken_by = "broker"
    hint = "The recipient can allow it again with a grant."


class InviteRefused(Refused):
    """The invite is forged, expired, revoked or used up, or its bearer is banned."""

    code = "INVITE_REFUSED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "Ask who invited you for a new invite."


class CreationRefused(Refused):
    """Creating a mesh needs the broker's creation token."""

    code = "CREATION_REFUSED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "Ask the broker's operator for the creation token or for an owner's invite."


class OperatorOnly(Refused):
    """Listing a broker's meshes and changing their limits needs its creation token."""

    code = "OPERATOR_ONLY"
    status = 403
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "Run `parley broker limits` on the broker's machine, as the user who runs the broker."


class FeatureUnavailable(Refused):
    """The broker does not have a feature that the daemon requires."""

    code = "FEATURE_UNAVAILABLE"
    status = 426
    spoken_by = "broker"
    hint = "Upgrade the older of the two."


class ConnectionReplaced(Refused):
    """The same member connected from elsewhere, and the mesh prefers the newest connection."""

    code = "CONNECTION_REPLACED"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "broker"
    hint = "Run one daemon for each member; a second machine joins with an invite of its own."


class AlreadyConnected(Refused):
    """The member is connected from elsewhere, and the mesh prefers the oldest connection."""

    code = "ALREADY_CONNECTED"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "broker"
    hint = "Stop the other daemon; a second machine joins with an invite of its own."


class UpgradeNeeded(Refused):
    """The mesh has a roster, and the daemon does not know what that is."""

    code = "UPGRADE_NEEDED"
    status = 426
    spoken_by = "broker"
    hint = "Upgrade Parley on this machine; what waits in its outbox is kept."


class RosterDecides(Refused):
    """The members of this mesh are decided by its roster, and not by the broker."""

    code = "ROSTER_DECIDES"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "broker"
    hint = "Append an entry to the roster that says it; an up-to-date daemon does so."


class NoRoster(Refused):
    """This mesh is older than rosters and has none."""

    code = "NO_ROSTER"
    status = 404
    spoken_by = "broker"
    hint = "Use the broker's methods for members and invites, which decide in this mesh."


class RosterRefused(Refused):
    """The entry may not stand where it would be in the mesh's roster. Nothing was appended."""

    code = "ROSTER_REFUSED"
    status = 403
    exit_code = Exit.UNAUTHORISED
    spoken_by = "broker"
    hint = "`reason` in the details says which rule it breaks; read the roster again and sign another entry."


class RosterClock(Refused):
    """The entry's time is more than ten minutes from the broker's clock. Nothing was appended."""

    code = "ROSTER_CLOCK"
    status = 409
    exit_code = Exit.CONFLICT
    spoken_by = "broker"
    hint = "Set the clock of this machine, or ask the broker's operator to set the broker's; then sign the entry again."


class RosterTooSoon(Unavailable):
    """A member has appended, or reserved, as much as it may for now. Nothing was appended."""

    code = "ROSTER_TOO_SOON"
    status = 429
    retry_after_seconds = 60.0
    spoken_by = "broker"
    hint = "Wait for the time in `retry_after`; an admin or an owner can append at once."

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, retry_after=retry_after)
        self.retry_after_seconds = retry_after


class RosterRestoring(Unavailable):
    """The broker was restored from a backup, and an owner has not confirmed the roster yet. Nothing was appended."""

    code = "ROSTER_RESTORING"
    status = 503
    retry_after_seconds = 10.0
    spoken_by = "broker"
    hint = (
        "An owner's daemon brings back what the backup lacks; until then messages go on and members stay as they are."
    )


class KeyEpochOver(Unavailable):
    """The message was sealed under a mesh key that has been replaced. Nothing was taken, and its id is free."""

    code = "KEY_EPOCH_OVER"
    status = 503
    spoken_by = "broker"
    retry_after_seconds = 0.5
    hint = "Read the roster, seal the message under the current key, and send it again; an up-to-date daemon does so."


class QuotaExceeded(Unavailable):
    """The mesh is full. Nothing was written."""

    code = "QUOTA_EXCEEDED"
    status = 503
    retry_after_seconds = 60.0
    spoken_by = "broker"
    hint = "Expired messages make room; the broker's operator can raise the quota with `parley broker limits`."


class BrokerRunning(WriterLockHeld):
    """A broker serves this store: the same refusal with a different remedy."""

    spoken_by = "broker"
    hint = "Use the running broker, or stop it first with `parley broker down`."
