"""What a daemon's local API answers with. The names are those that existing callers know.

A member that is ``UNSET`` is not in the answer at all; one that is None is there as null. What was added since the
first release has a default, since a client may be newer than the daemon that it talks to.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from parley.wire.broker import DestinationKind, Priority

RowStatus = Literal["pending", "inflight", "done", "dead", "aborted"]
"""Where a row of the outbox is on its way."""


class DaemonVersion(msgspec.Struct, frozen=True):
    """``GET /v1/version``"""

    daemon_version: str
    ipc_api: str
    ipc_features: list[str]
    schema_version: int
    instance_id: str
    broker_features_negotiated: dict[str, list[str]]
    """By mesh."""


class Compatibility(msgspec.Struct, frozen=True):
    """``GET /v1/compat``"""

    daemon: str
    broker_protocol: int
    required_broker_features: list[str]
    compatible_clis: list[str]
    compatible_sdks: dict[str, str]


class Heartbeat(msgspec.Struct, frozen=True):
    """``POST /v1/heartbeat``"""

    ok: bool
    instance_id: str


class MembershipEnded(msgspec.Struct, frozen=True):
    """Why the broker was left for good, and when. Only a member that was ``removed`` needs an invite to come back."""

    code: str
    error: str
    at: str
    removed: bool


class ConnectionLost(msgspec.Struct, frozen=True):
    """Since when a mesh cannot be reached, and why."""

    since: str
    reason: str


class MeshState(msgspec.Struct, frozen=True, kw_only=True):
    """A mesh as its user sees it, without secrets."""

    mesh_id: str
    slug: str
    broker_url: str
    member_id: str
    display_name: str
    role: str
    pubkey: str
    status: str
    ended: MembershipEnded | None
    lost: ConnectionLost | None
    joined_at: str
    key_epoch: int | None
    lag_ms: float | None = None
    in_flight: int
    inline_bytes_max: int
    max_age_hours: float
    features: list[str]
    fingerprint: str = ""
    """Of the mesh's roster; empty for a mesh that is older than rosters."""
    split: bool = False
    key_owed: bool = False
    single_owner: bool = False
    upgrade_needed: bool = False
    restoring: bool = False
    confirmed_at: str | None = None
    """When a peer last had the same roster."""


class MeshStates(msgspec.Struct, frozen=True):
    """``GET /v1/meshes``"""

    meshes: list[MeshState]


class DaemonHealth(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/health``"""

    ok: bool
    degraded: bool
    problems: list[str]
    disk_free_bytes: int
    pid: int
    instance_id: str
    daemon_version: str
    uptime_s: int
    connected: bool
    brokers: dict[str, str]
    """The status of each mesh's connection."""
    socket: str
    port: int | None
    meshes: list[MeshState]
    lag_ms: float | None = None
    queue_depth: int
    inflight: int
    dead: int
    outbox_share: float
    inbox_share: float = 0.0
    outbox_bytes: int
    inbox_bytes: int
    unseen: int
    undecryptable: int
    streams: int
    schema_version: int


class SendResult(msgspec.Struct, frozen=True):
    """202: the message is on disk. 200: it was sent before under the same id, and the broker has it."""

    client_message_id: str
    id: str
    mesh: str
    status: str | UnsetType = UNSET
    broker_message_id: str | None | UnsetType = UNSET
    history_id: int | None | UnsetType = UNSET
    duplicate: bool | UnsetType = UNSET


class SenderSession(msgspec.Struct, frozen=True):
    """Which session of the sender a message comes from."""

    id: str
    name: str | None
    role: str | None


class InboxItem(msgspec.Struct, frozen=True):
    """A message that arrived."""

    id: str
    seq: int
    mesh: str
    client_message_id: str
    broker_message_id: str
    history_id: int
    topic: str | None
    to: str
    kind: DestinationKind
    sender_pubkey: str
    sender_member_id: str
    sender_name: str
    body: str | None
    """None while no key opens the message, or when what it holds cannot be read."""
    meta: dict[str, Any]
    undecryptable: bool
    priority: Priority
    mentioned: bool
    reply_to_id: str | None
    received_at: str
    created_at: str
    seen_at: str | None
    recipient_member_id: str
    recipient_kind: Literal["member", "session"]
    recipient_session: str | None
    sender_session: SenderSession | None
    refused: str | None = None
    """Why the message is not shown as said, if it is not: its sender was removed, or did not sign it."""


class InboxPage(msgspec.Struct, frozen=True):
    """``GET /v1/inbox`` and ``/v1/inbox/search``, newest first. A search marks and counts nothing."""

    items: list[InboxItem]
    cursor: int | None = None
    """Given as ``before``, leads to the next page."""
    more: bool = False
    marked_seen: int | UnsetType = UNSET
    unseen: int | UnsetType = UNSET
    undecryptable: int | UnsetType = UNSET


class MarkedSeen(msgspec.Struct, frozen=True):
    """``POST /v1/inbox/seen``"""

    marked_seen: int


class Removed(msgspec.Struct, frozen=True):
    """``DELETE /v1/inbox``, and of one message, which is then named."""

    removed: int
    id: str | UnsetType = UNSET


class Reached(msgspec.Struct, frozen=True):
    """Of how many recipients how many have the message and can read it, how many never will have it, and how many have
    it and cannot open it; None where the broker is too old to tell these apart from those who can."""

    recipients: int
    delivered: int
    dead: int
    undecryptable: int | None = None


class OutboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the outbox, without what it says."""

    id: str
    client_message_id: str
    mesh: str
    to: str
    destination_kind: DestinationKind
    destination_ref: str
    priority: Priority
    status: RowStatus
    attempts: int
    enqueued_at: str
    next_attempt_at: str
    delivered_at: str | None
    broker_message_id: str | None
    history_id: int | None
    last_error: str | None
    aborted_at: str | None
    aborted_by: str | None
    superseded_by: str | None
    payload_bytes: int
    pruned: bool
    reached: Reached | None | UnsetType = UNSET
    """Only where it was asked for; None where nobody can say."""


class OutboxPage(msgspec.Struct, frozen=True):
    """``GET /v1/outbox``, newest first."""

    items: list[OutboxItem]
    cursor: int | None = None
    more: bool = False


class Delivery(msgspec.Struct, frozen=True):
    """What became of a message at one recipient, as the broker tells."""

    member_id: str
    display_name: str
    state: str
    status: str | None
    reason: str | None
    attempts: int
    settled_at: str | None


class OutboxDetail(OutboxItem, frozen=True, kw_only=True):
    """``GET /v1/outbox/{id}``: one row, with all that it replaced and was replaced by."""

    message: str | None
    """None once it was forgotten."""
    deliveries: list[Delivery] | None
    """None where the broker does not have the message, or cannot be asked."""
    chain: list[OutboxItem]


class Requeued(msgspec.Struct, frozen=True):
    """``POST /v1/outbox/requeue``"""

    aborted_row_id: str
    new_row_id: str
    new_client_message_id: str


class Pruned(msgspec.Struct, frozen=True):
    """``POST /v1/outbox/prune``"""

    pruned: int


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a mesh, with what it tells of itself."""

    mesh: str
    member_id: str
    pubkey: str
    memberPubkey: str  # noqa: N815  the older spelling
    display_name: str
    displayName: str  # noqa: N815  the older spelling
    role: str
    state: str
    joined_at: str
    seen_at: str | None
    status: str
    connected: bool
    groups: list[str]
    summary: str | None = None
    title: str | None = None
    bio: str | None = None
    avatar: str | None = None
    capabilities: list[str] = []


class Peers(msgspec.Struct, frozen=True):
    """``GET /v1/peers``"""

    peers: list[Peer]
    unreachable: list[str]
    """Meshes that could not be asked."""


class ProfileResult(msgspec.Struct, frozen=True):
    """``POST /v1/profile``"""

    ok: bool
    applied: list[str]
    meshes: list[str]


class TopicItem(msgspec.Struct, frozen=True):
    """A topic of a mesh."""

    topic: str
    created_ms: int
    subscribers: int
    subscribed: bool


class TopicList(msgspec.Struct, frozen=True):
    """``GET /v1/topic/list``"""

    mesh: str
    topics: list[TopicItem]


class Subscription(msgspec.Struct, frozen=True):
    """``POST /v1/topic/subscribe`` and ``/unsubscribe``"""

    mesh: str
    topic: str
    changed: bool


class SessionItem(msgspec.Struct, frozen=True):
    """A local session, without its token."""

    session_id: str
    display_name: str
    mesh: str | None
    pid: int | None
    pid_started: int | None
    cwd: str | None
    role: str | None
    groups: list[str]
    registered_at: int


class SessionList(msgspec.Struct, frozen=True):
    """``GET /v1/sessions``"""

    sessions: list[SessionItem]


class SessionRegistered(msgspec.Struct, frozen=True):
    """``POST /v1/sessions/register``"""

    ok: bool
    registered_at: int
    presence_accepted: bool


class SessionEnded(msgspec.Struct, frozen=True):
    """``DELETE /v1/sessions/{token}``"""

    ok: bool
    ended: bool


class InviteMade(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/invite``"""

    invite: str
    invite_id: str
    expires_at: str


class HeadShown(msgspec.Struct, frozen=True):
    """An entry of a roster, by number and hash."""

    n: int
    hash: str


class MeshInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/mesh/info``"""

    mesh: str
    fingerprint: str
    head: HeadShown
    """The newest entry of the roster that the daemon has."""
    confirmed_n: int | None
    confirmed_by: str | None
    confirmed_at: str | None
    """Up to which entry a peer has the same roster, which one said so last, and when."""
    owners: list[str]
    members: int
    key_epoch: int
    key_owed: bool
    """Whether a new key is to be made, or has not arrived here."""
    single_owner: bool
    upgrade_needed: bool
    restoring: bool
    split: HeadShown | None
    """What the broker has signed although it is not on this roster, if it has."""


class LogEntry(msgspec.Struct, frozen=True):
    """An entry of a roster: who said what, and whom it is about."""

    n: int
    at: str
    kind: str
    by: str
    about: list[str]
    hash: str


class MeshLog(msgspec.Struct, frozen=True):
    """``GET /v1/mesh/log``, in the roster's order."""

    mesh: str
    entries: list[LogEntry]


class MeshSettled(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/settle``"""

    mesh: str
    changed: bool
    removed: list[str]
    """Whom the branch that has lost had removed, and who therefore was removed again."""


class MemberRenamed(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/rename``"""

    mesh: str
    member_id: str
    display_name: str


class MemberVerified(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/verify``"""

    mesh: str
    peer: str
    pubkey: str
    safety_number: str
    verified_at: str | None
    """When the numbers of this very key were compared; None if they were not."""
    key_changed: bool
    """Whether the member had another key when they were compared."""


class MeshLeft(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/forget``"""

    mesh: str
    member_id: str
    state: str


class KeyRotated(msgspec.Struct, frozen=True):
    """``POST /v1/mesh/rotate-keypair``"""

    mesh: str
    previous: str
    pubkey: str


class SafetyNumber(msgspec.Struct, frozen=True):
    """``GET /v1/mesh/safety``"""

    mesh: str
    peer: str
    pubkey: str
    safety_number: str


class Reloaded(msgspec.Struct, frozen=True):
    """``POST /v1/reload``"""

    attached: list[str]
    detached: list[str]
    changed: list[str]
    needs_restart: list[str]
    hooks: list[str]
