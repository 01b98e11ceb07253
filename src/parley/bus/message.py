"""What an envelope carries: a request, a reply to one, or something published, as bytes.

::

    1 request   timeout u32 in milliseconds ‖ topic ‖ body
    2 reply     message id of the request 16 ‖ 0 answered | 1 no handler | 2 handler failed ‖ body
    3 publish   topic ‖ body

    topic       u16 length ‖ UTF-8

A body is whatever is left; only an answer has one.
"""

import struct
from typing import Final, Literal, NamedTuple

from parley.bus.blocks import BlockReader, Buffer, Malformed
from parley.bus.envelope import MESSAGE_ID_BYTES
from parley.bus.link_frames import is_topic
from parley.core.bus_errors import EnvelopeInvalid

_REQUEST, _REPLY, _PUBLISH = range(1, 4)
_OUTCOMES: Final = ("answered", "no_handler", "failed")
TIMEOUT_MS_MAX: Final = 2**32 - 1

ReplyOutcome = Literal["answered", "no_handler", "failed"]


class Request(NamedTuple):
    """Something that is asked."""

    topic: str
    body: bytes
    timeout_ms: int
    """How long whoever asks waits for the answer; later, nobody needs it."""


class Reply(NamedTuple):
    """The answer to a request, or why there is none."""

    to: bytes
    """The message id of the request."""
    outcome: ReplyOutcome
    body: bytes = b""


class Publish(NamedTuple):
    """Something for whoever subscribes to the topic."""

    topic: str
    body: bytes


BusMessage = Request | Reply | Publish


def encode_message(message: BusMessage) -> bytes:
    """The payload of an envelope, before it is sealed."""
    return b"".join(message_parts(message))


def message_parts(message: BusMessage) -> tuple[bytes, bytes]:
    """The same in two parts, of which the second is the body itself."""
    body = bytes(message.body)
    match message:
        case Request():
            return struct.pack(">BI", _REQUEST, message.timeout_ms) + _topic(message.topic), body
        case Reply():
            return bytes([_REPLY]) + message.to + bytes([_OUTCOMES.index(message.outcome)]), body
        case Publish():
            return bytes([_PUBLISH]) + _topic(message.topic), body


def decode_message(data: Buffer) -> BusMessage:
    """What a payload says. Raises ``EnvelopeInvalid`` for one that says nothing."""
    reader = BlockReader(data)
    try:
        match reader.take(1)[0]:
            case 1:
                timeout_ms = int.from_bytes(reader.take(4))
                return Request(_read_topic(reader), _rest(reader), timeout_ms)
            case 2:
                to, outcome = bytes(reader.take(MESSAGE_ID_BYTES)), reader.take(1)[0]
                if outcome >= len(_OUTCOMES):
                    raise Malformed(f"outcome {outcome} is not known")
                return Reply(to, _OUTCOMES[outcome], _rest(reader))
            case 3:
                return Publish(_read_topic(reader), _rest(reader))
            case kind:
                raise Malformed(f"messages of kind {kind} are not known")
    except (Malformed, UnicodeDecodeError) as error:
        raise EnvelopeInvalid(f"the payload is no message: {error}") from error


def _topic(name: str) -> bytes:
    encoded = name.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _read_topic(reader: BlockReader) -> str:
    name = bytes(reader.take(int.from_bytes(reader.take(2)))).decode("utf-8")
    if not is_topic(name):
        raise Malformed("a topic cannot be called that")
    return name


def _rest(reader: BlockReader) -> bytes:
    return bytes(reader.take(reader.left))
