"""Frames between a daemon and a broker: what crosses the WebSocket, one JSON object a frame, told apart by ``type``.

A connection serves one member of one mesh. The broker speaks first::

    broker  challenge                  a nonce that is good for this connection alone
    daemon  hello                      who it is, signed over the nonce, so that a hello cannot be played again
    broker  welcome                    the member, the mesh, the limits
    daemon  negotiate                  the features it cannot live without
    broker  features                   those it has, with parameters; a daemon that misses one says why and closes
            — from here on, in any order —
    daemon  send                       one message; answered by ``accepted`` or ``refused``, named by the client's id
    broker  push                       one delivery under a lease; the daemon stores it and answers ``delivery_ack``
    daemon  request                    anything else that is asked; answered by ``answer``
    broker  notice                     something happened that the daemon may want to know at once; never relied upon
    both    ping, pong

Nothing is relied upon that is not acknowledged: a ``send`` without an answer is sent again and recognised by its id, a
``push`` without an acknowledgement comes again when its lease has run out. Unknown members of a frame are ignored and
unknown types are answered with an ``error`` frame, so that either side may be newer than the other.

``wire.rosters`` tells what version 2 adds.
"""

import base64
import binascii
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits
from parley.core.errors import InvalidInput, ParleyError
from parley.core.fingerprint import request_fingerprint
from parley.core.untrusted_json import decode_by
from parley.wire.requests import ClientKey, Id
from parley.wire.rosters import RosterHello, RosterStanding

PROTOCOL_VERSION: Final = 1
NEWEST_PROTOCOL: Final = 2
"""The version with rosters. A connection speaks the one that its hello is of."""
NONCE_BYTES: Final = 32
_HELLO: Final = "parley broker hello 1"

DestinationKind = Literal["topic", "dm", "queue"]
Priority = Literal["now", "next", "low"]
DeliveryStatus = Literal["stored", "undecryptable"]
Presence = Literal["idle", "working", "dnd"]

_END = r"(?![\s\S])"
KEY_PATTERN: Final = rf"^[0-9a-f]{{64}}{_END}"
SIGNATURE_PATTERN: Final = rf"^[0-9a-f]{{128}}{_END}"
REFERENCE_PATTERN: Final = rf"^[^\x00-\x1f\x7f]+{_END}"
Key = Annotated[str, Meta(pattern=KEY_PATTERN, description="32 bytes in hexadecimal")]
"""A public key, a nonce or a fingerprint."""
Signature = Annotated[str, Meta(pattern=SIGNATURE_PATTERN, description="64 bytes in hexadecimal")]
Number = Annotated[int, Meta(ge=0, le=limits.VERSION_MAX)]
"""Counts, times and ids: what every store and every reader of JSON holds exactly."""
Reference = Annotated[str, Meta(min_length=1, max_length=limits.DESTINATION_CHARS_MAX, pattern=REFERENCE_PATTERN)]
"""A topic's name, a member's public key or, with a roster, its id, ``*`` for everybody or ``@`` and a group's name."""


class Challenge(msgspec.Struct, frozen=True, tag_field="type", tag="challenge"):
    """The first frame of a connection."""

    nonce: Key
    broker_id: str
    protocol: int = PROTOCOL_VERSION
    newest: int = PROTOCOL_VERSION
    """The newest version that the broker speaks. Which one a connection speaks, its hello says."""


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    """Who connects. ``signature`` is the member's, over ``hello_bytes``."""

    mesh_id: Id
    member_id: Id
    pubkey: Key
    signature: Signature
    instance_id: Id
    """Made anew at each start of a daemon: a second connection of the same instance replaces the first."""
    host_fingerprint: str = ""
    protocol: int = PROTOCOL_VERSION
    daemon_version: str = ""


class Welcome(msgspec.Struct, frozen=True, tag_field="type", tag="welcome"):
    """The broker knows the member."""

    connection_id: str
    member_id: str
    display_name: str
    role: str
    mesh_id: str
    mesh_slug: str
    key_epoch: Number
    inline_bytes_max: Number
    """Largest body of a message, in bytes."""
    window: Number
    """Deliveries, and sends, that may be unacknowledged at once."""
    lease_ms: Number
    heartbeat_ms: Number
    """Either side closes when it has heard nothing for two and a half times this."""
    broker_version: str = ""


class RosterWelcome(Welcome, frozen=True, kw_only=True, tag_field="type", tag="roster_welcome"):
    """The broker knows the member, or the invite: then ``member_id``, ``display_name`` and ``role`` are empty."""

    roster: RosterStanding


class Negotiate(msgspec.Struct, frozen=True, tag_field="type", tag="negotiate"):
    """What the daemon requires of the broker, and what it would use."""

    require: list[str]
    optional: list[str] = []


class FeatureParams(msgspec.Struct, frozen=True):
    """A feature that the broker has. ``params`` always names its ``version``."""

    params: dict[str, Any]


class Features(msgspec.Struct, frozen=True, tag_field="type", tag="features"):
    """The answer to ``negotiate``."""

    supported: dict[str, FeatureParams]
    missing_required: list[str] = []


class Send(msgspec.Struct, frozen=True, tag_field="type", tag="send"):
    """One message, the same bytes at each try. ``body`` is base64 of the sealed bytes, their nonce first."""

    client_message_id: ClientKey
    kind: DestinationKind
    ref: Reference
    body: str
    fingerprint: Key
    priority: Priority = "next"
    reply_to: Id | None = None
    meta: dict[str, Any] = {}
    """What the sender lets everybody see who carries the message."""
    mentions: Annotated[list[Key], Meta(max_length=limits.MENTIONS_MAX)] = []
    key_epoch: Number | None = None
    """Which mesh key sealed the body. With a roster also that which was current when a body was sealed to its one
    recipient; without one None in that case."""
    sender_key: Key | None = None
    """Which key of the sender sealed the body, be it one that was replaced since; None is its newest."""


class Accepted(msgspec.Struct, frozen=True, tag_field="type", tag="accepted", omit_defaults=False):
    """The broker has the message on disk, with a delivery for each recipient. 201 the first time, 200 after that."""

    client_message_id: str
    status: Literal[200, 201]
    broker_message_id: str
    history_id: Number
    duplicate: bool
    history_available: bool = True
    first_seen_at: str = ""
    recipients: int = 0
    """How many deliveries the message made; 0 in a duplicate's answer."""


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, as everywhere in Parley."""

    code: str
    error: str
    status: int
    transient: bool
    details: dict[str, Any] = {}


class RefusedSend(msgspec.Struct, frozen=True, tag_field="type", tag="refused"):
    """The broker did not take the message, and keeps no trace of its id."""

    client_message_id: str
    problem: Problem
    retry_after_ms: Number | None = None


class CarriedMessage(msgspec.Struct, frozen=True):
    """A message as its recipients get it."""

    broker_message_id: str
    history_id: Number
    client_message_id: str
    sender: str
    """The sender's public key when it sent the message."""
    sender_id: str
    sender_name: str
    kind: DestinationKind
    ref: str
    priority: Priority
    body: str
    accepted_at: str
    reply_to: str | None = None
    meta: dict[str, Any] = {}
    key_epoch: Number | None = None


class Push(msgspec.Struct, frozen=True, tag_field="type", tag="push"):
    """One delivery. It comes again unless it is acknowledged within the lease."""

    delivery_id: Number
    attempt: Number
    mentioned: bool
    message: CarriedMessage


class DeliveryAcked(msgspec.Struct, frozen=True):
    """One delivery that is on the recipient's disk, whether or not it could be read."""

    delivery_id: Number
    status: DeliveryStatus = "stored"


class DeliveryAck(msgspec.Struct, frozen=True, tag_field="type", tag="delivery_ack"):
    """The daemon has these deliveries in its inbox."""

    deliveries: list[DeliveryAcked]


class Request(msgspec.Struct, frozen=True, tag_field="type", tag="request"):
    """A call of one of the broker's methods. ``id`` is the caller's, and comes back in the answer."""

    id: Number
    method: str
    params: dict[str, Any] = {}


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="answer"):
    """The answer to a request: a result, or a problem."""

    id: Number
    result: Any = None
    problem: Problem | None = None


class Notice(msgspec.Struct, frozen=True, tag_field="type", tag="notice"):
    """Something that happened in the mesh."""

    name: str
    data: dict[str, Any]


class Ping(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    """Is anybody there? Answered by ``pong`` with the same number."""

    id: Number


class Pong(msgspec.Struct, frozen=True, tag_field="type", tag="pong"):
    """Here."""

    id: Number


class ErrorFrame(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """Why the connection is about to be closed (with ``close_code``), or which frame was not understood (without).

    A close reason holds 123 bytes at most, so what a program needs to know comes in this frame first.
    """

    problem: Problem
    close_code: int | None = None


FromBroker = (
    Challenge
    | Welcome
    | RosterWelcome
    | Features
    | Accepted
    | RefusedSend
    | Push
    | Answer
    | Notice
    | Ping
    | Pong
    | ErrorFrame
)
FromDaemon = Hello | RosterHello | Negotiate | Send | DeliveryAck | Request | Ping | Pong | ErrorFrame

_decode_from_broker: Final = msgspec.json.Decoder(FromBroker)
_decode_from_daemon: Final = msgspec.json.Decoder(FromDaemon)
_encode: Final = msgspec.json.Encoder()


def encode_frame(frame: FromBroker | FromDaemon) -> bytes:
    """The frame's bytes."""
    return _encode.encode(frame)


def decode_from_broker(data: bytes | str) -> FromBroker:
    """The frame. Raises ``InvalidInput`` for what is none."""
    return _decoded(_decode_from_broker, data)


def decode_from_daemon(data: bytes | str) -> FromDaemon:
    """The frame. Raises ``InvalidInput`` for what is none."""
    return _decoded(_decode_from_daemon, data)


def hello_bytes(*, nonce: str, broker_id: str, hello: Hello) -> bytes:
    """What a member signs to connect. The broker's own id is in it, so that no broker can use it at another."""
    parts = (
        _HELLO,
        broker_id,
        nonce,
        hello.mesh_id,
        hello.member_id,
        hello.pubkey,
        hello.instance_id,
        hello.host_fingerprint,
    )
    return "\n".join(parts).encode()


def problem_of(error: ParleyError) -> Problem:
    """The error as it crosses the wire."""
    return Problem(error.code, error.message, error.status, error.transient, dict(error.details))


def body_bytes(send: Send) -> bytes:
    """The sealed bytes of a message. Raises ``InvalidInput`` when they are not base64."""
    try:
        return base64.b64decode(send.body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("body is not base64", field="body") from error


def wire_fingerprint(send: Send, body: bytes | None = None) -> bytes:
    """The fingerprint that a broker keeps: over what it carries, so that it can compute it itself and learns nothing.

    ``body`` is the message's, for a caller who has it as bytes already.

    Raises ``InvalidInput`` as ``request_fingerprint`` and ``body_bytes`` do.
    """
    meta = {"meta": send.meta, "mentions": send.mentions, "key_epoch": send.key_epoch}
    return request_fingerprint(
        kind=send.kind,
        ref=send.ref,
        reply_to=send.reply_to or "",
        priority=send.priority,
        meta={name: value for name, value in meta.items() if value not in (None, {}, [])},
        body=body_bytes(send) if body is None else body,
    )


def _decoded(decoder: msgspec.json.Decoder[Any], data: bytes | str) -> Any:
    try:
        return decode_by(decoder.decode, data)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"not a frame of this protocol: {error}") from error
