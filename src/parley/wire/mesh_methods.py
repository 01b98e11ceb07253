"""The methods of a broker that a daemon calls by a ``request`` frame: what each takes, and what it answers with.

A method acts for the member of the connection, in that member's mesh, and on nothing else. Each may be called again:
one that finds the asked state already there says so in its answer and changes nothing.
"""

from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from parley.core import limits, sealing
from parley.wire.broker import Key, Presence, Reference, Signature
from parley.wire.invites import Role
from parley.wire.requests import ClientKey, Id
from parley.wire.rosters import AppendEntries, ConfirmRoster, ReadRoster

_END = r"(?![\s\S])"
Topic = Reference
GROUP_PATTERN: Final = rf"^[^\x00-\x1f\x7f@*]+{_END}"
BASE64_PATTERN: Final = rf"^[A-Za-z0-9+/=]+{_END}"
Group = Annotated[str, Meta(max_length=limits.DESTINATION_CHARS_MAX - 1, pattern=GROUP_PATTERN)]
Summary = Annotated[str, Meta(max_length=limits.REASON_CHARS_MAX, pattern=rf"^[^\x00-\x1f\x7f]*{_END}")]
Capability = Literal["dm", "topic", "broadcast"]
ConnectionPolicy = Literal["prefer_newest", "prefer_oldest", "allow_concurrent"]
Limit = Annotated[int, Meta(ge=1, le=limits.PAGE_LIMIT_MAX)]
Sealed = Annotated[str, Meta(max_length=1_000, pattern=BASE64_PATTERN, description="base64")]

SealedWords = Annotated[str, Meta(max_length=limits.PROFILE_CHARS_MAX, pattern=BASE64_PATTERN, description="base64")]


class Nothing(msgspec.Struct, frozen=True):
    """No parameters."""


class OfTopic(msgspec.Struct, frozen=True):
    """A topic, by its name."""

    topic: Topic


class OfGroup(msgspec.Struct, frozen=True):
    """A group, by its name; ``a/b`` is below ``a``."""

    group: Group


class OfMember(msgspec.Struct, frozen=True):
    """A member, by its id."""

    member_id: Id


class OfInvite(msgspec.Struct, frozen=True):
    """An invite, by its id."""

    invite_id: Id


class SetPresence(msgspec.Struct, frozen=True):
    """What the member is doing. ``for_ms`` ends it; ``working`` ends by itself."""

    status: Presence
    summary: Summary | None = None
    for_ms: Annotated[int, Meta(ge=0, le=limits.VERSION_MAX)] | None = None


class SetProfile(msgspec.Struct, frozen=True):
    """What the member tells of itself, sealed for the members, and whether it is listed among the peers."""

    visible: bool = True
    sealed: SealedWords | None = None
    key_epoch: Annotated[int, Meta(ge=1, le=limits.VERSION_MAX)] | None = None


class Grant(msgspec.Struct, frozen=True):
    """What the member takes from a peer."""

    member_id: Id
    capabilities: Annotated[list[Capability], Meta(max_length=10)]


class SetRole(msgspec.Struct, frozen=True):
    """Another role for a member."""

    member_id: Id
    role: Role


class SetConnectionPolicy(msgspec.Struct, frozen=True):
    """What becomes of a second daemon of a member."""

    policy: ConnectionPolicy


class CreateInvite(msgspec.Struct, frozen=True):
    """An invite as its text without the secret, signed by the member."""

    invite: Annotated[str, Meta(max_length=limits.INVITE_CHARS_MAX)]


class RotateKey(msgspec.Struct, frozen=True):
    """The member's new key, which signed ``rotation_bytes``: nobody can take a key that is not theirs."""

    pubkey: Key
    signature: Signature
    proof: Annotated[str, Meta(max_length=64)] = ""
    """``rotation_proof``: shows the members, and tells a broker nothing, that the new key belongs to one of them."""


class GiveKey(msgspec.Struct, frozen=True):
    """A mesh key of an epoch, sealed to a member who has asked for it."""

    member_id: Id
    key_epoch: Annotated[int, Meta(ge=1, le=limits.VERSION_MAX)]
    sealed: Sealed


class RefuseKey(msgspec.Struct, frozen=True):
    """A sealed mesh key that its recipient could not open, or does not believe."""

    key_epoch: Annotated[int, Meta(ge=1, le=limits.VERSION_MAX)]
    giver_id: Id


class MessageStatus(msgspec.Struct, frozen=True):
    """A message that the member sent."""

    client_message_id: ClientKey


class MessagesReached(msgspec.Struct, frozen=True):
    """Messages that the member sent."""

    client_message_ids: Annotated[list[ClientKey], Meta(max_length=limits.MESSAGES_REACHED_MAX)]


class Page(msgspec.Struct, frozen=True):
    """What comes after a number, so many at most."""

    after: Annotated[int, Meta(ge=0, le=limits.VERSION_MAX)] = 0
    limit: Limit = limits.PAGE_LIMIT_DEFAULT


class MemberPage(msgspec.Struct, frozen=True):
    """Members by their ids: those after one, so many at most. Without ``limit`` as many as fit into one answer."""

    after: Id | None = None
    limit: Limit | None = None


class ListMembers(MemberPage, frozen=True):
    """The active members, or the former ones."""

    former: bool = False


class Method(NamedTuple):
    """One method."""

    params: type[msgspec.Struct]
    role: Role
    """The least role that may call it."""
    answer: str
    """Members of the result."""
    meaning: str


METHODS: Final[dict[str, Method]] = {
    "peers": Method(
        MemberPage,
        "member",
        "peers, cursor",
        "who is in the mesh, what they are doing and whether they are connected",
    ),
    "members": Method(ListMembers, "member", "members, cursor", "who is a member, or who was one"),
    "topics": Method(Nothing, "member", "topics", "the topics, and whether the member is subscribed"),
    "subscribe": Method(
        OfTopic, "member", "topic, changed", "get what is sent to a topic, and be allowed to send to it"
    ),
    "unsubscribe": Method(OfTopic, "member", "topic, changed", "get no more of a topic; what is queued still comes"),
    "join_group": Method(OfGroup, "member", "group, changed", "be reached by `@` and the group's name"),
    "leave_group": Method(OfGroup, "member", "group, changed", "be no longer in a group"),
    "set_presence": Method(
        SetPresence, "member", "status", "say what the member is doing; who is busy gets only `now`"
    ),
    "set_profile": Method(
        SetProfile, "member", "visible", "tell the members more of oneself, or be left out of their lists"
    ),
    "grants": Method(Nothing, "member", "grants", "what the member does not take from whom"),
    "grant": Method(Grant, "member", "member_id, capabilities", "take only these from a peer"),
    "block": Method(OfMember, "member", "member_id, capabilities", "take nothing from a peer"),
    "unblock": Method(OfMember, "member", "member_id, capabilities", "take everything from a peer again"),
    "message_status": Method(
        MessageStatus, "member", "broker_message_id, history_id, deliveries", "what became of an own message"
    ),
    "messages_reached": Method(
        MessagesReached,
        "member",
        "messages",
        "how many recipients of own messages have them, could not open them, or never will have them, in one answer",
    ),
    "redeliver": Method(
        Nothing, "member", "deliveries", "deliver again what the broker still has, to a member that lost it"
    ),
    "rotate_key": Method(RotateKey, "member", "member_id, pubkey", "replace the member's key"),
    "leave": Method(Nothing, "member", "member_id, state", "end one's own membership"),
    "keys_wanted": Method(
        MemberPage,
        "member",
        "key_epoch, wanted, cursor",
        "who has no key of the epoch yet, and what each joined by",
    ),
    "give_key": Method(GiveKey, "member", "member_id, given", "hand on a mesh key that is sealed to its recipient"),
    "keys": Method(Nothing, "member", "key_epoch, keys", "the sealed mesh keys that others have given to the member"),
    "refuse_key": Method(RefuseKey, "member", "changed", "throw a sealed key away, so that one is seen to be wanted"),
    "mesh": Method(
        Nothing,
        "member",
        "mesh_id, slug, name, members, members_max, stored_bytes, bytes_max, connection_policy",
        "the mesh's limits, and how far they are used",
    ),
    "invites": Method(Nothing, "admin", "invites", "the invites of the mesh, and how often each was used"),
    "create_invite": Method(
        CreateInvite, "admin", "invite_id, created", "let an invite be used that the member signed"
    ),
    "revoke_invite": Method(OfInvite, "admin", "invite_id, changed", "let an invite be used no more"),
    "kick": Method(
        OfMember, "admin", "member_id", "close a member's connections; its daemon stays away until it is started again"
    ),
    "revoke": Method(OfMember, "admin", "member_id, state", "remove a member"),
    "ban": Method(OfMember, "admin", "member_id, state", "remove a member, whose key may not join again"),
    "unban": Method(OfMember, "admin", "member_id, state", "let a key join again"),
    "set_role": Method(SetRole, "owner", "member_id, role", "give a member another role"),
    "set_connection_policy": Method(
        SetConnectionPolicy,
        "owner",
        "connection_policy, changed",
        "say what becomes of a member's second daemon, from the next connection on",
    ),
    "audit": Method(Page, "admin", "entries, verified", "the mesh's audit log, and whether its chain holds"),
    "roster_append": Method(
        AppendEntries,
        "member",
        "appended, head, missing, reserved_ms, wait_ms",
        "append entries to the roster, all or none; or learn what came before them, and whose turn it is",
    ),
    "roster_read": Method(ReadRoster, "member", "entries, head, restoring", "the roster's entries from a number on"),
    "roster_confirm": Method(
        ConfirmRoster,
        "owner",
        "head, restoring, missing",
        "bring a restored broker what it lost of the roster, and let the mesh go on from there",
    ),
}
NOTICES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "peers_changed": (
        ("connected", "disconnected", "presence", "more"),
        "who came, went, or said what it is doing, within a second: ids, and statuses by id; `more` did not fit",
    ),
    "member_joined": (("member_id", "display_name", "pubkey"), "there is a new member, who wants the mesh key"),
    "member_gone": (("member_id", "state", "key_epoch"), "a member is none any more; the mesh wants a new key"),
    "member_keypair_rotated": (("member_id", "pubkey", "previous"), "a member has another key"),
    "roster_head": (("n", "hash", "sig"), "the roster has new entries, up to this head"),
    "key_given": (("member_id", "key_epoch"), "a sealed mesh key waits for a member"),
    "key_wanted": (
        ("member_id", "key_epoch"),
        "a member could not use the key that it was given, or proves anew that it may have one",
    ),
}
"""What a broker tells the members of a mesh at once, when they are connected: members of its data, and when."""
_ROTATION: Final = "parley key rotation 1"


def rotation_bytes(mesh_id: str, member_id: str, pubkey: str) -> bytes:
    """What a new key signs when it takes the place of the old one."""
    return f"{_ROTATION}\n{mesh_id}\n{member_id}\n{pubkey}".encode()


def rotation_proof(mesh_key: bytes, mesh_id: str, pubkey: str) -> str:
    """Only who has the mesh key can make it, so a broker cannot pass a key of its own off as a member's new one."""
    return sealing.derive_key(mesh_key, _ROTATION, mesh_id, pubkey).hex()


def params_of(method: Method, params: dict[str, Any]) -> msgspec.Struct:
    """The parameters, checked. Raises ``msgspec.ValidationError``."""
    return msgspec.convert(params, method.params)
