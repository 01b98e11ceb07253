"""What two agents say on a connection, as bytes. A frame is an envelope, or begins with one of these bytes:

::

    1 hello       version u8 = 1 ‖ instance 16 ‖ number u32 ‖ block chain ‖ topics ‖ statements
    2 answer      sequence u64 ‖ 0 accepted | 1 duplicate | 2 bad sequence ‖ expected u64 | 3 refused ‖ refusal
    3 topics      topics
    4 statements  statements
    5 alive
    6 refusal     refusal
    7 renewal     block line

    topics        u16 count ‖ each as a block of UTF-8
    statements    u8 count ‖ each as a block
    refusal       u8 transient ‖ block code

Numbers are big-endian, and a block has a u32 length before it. An envelope begins with its tag, whose first byte is
none of these. Whatever is longer, more, or other than this is ``LinkInvalid``.
"""

import re
import struct
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from parley.bus.blocks import BlockReader, Buffer, Malformed, block
from parley.bus.envelope import TAG as ENVELOPE_TAG
from parley.bus.envelope import Envelope
from parley.bus.envelope import decode as decode_envelope
from parley.bus.revocation import STATEMENT_BYTES_MAX
from parley.core import limits
from parley.core.bus_errors import LinkInvalid

VERSION: Final = 1
INSTANCE_BYTES: Final = 16
_HELLO, _ANSWER, _TOPICS, _STATEMENTS, _ALIVE, _REFUSAL, _RENEWAL = range(1, 8)
_OUTCOMES: Final = ("accepted", "duplicate", "bad_sequence", "refused")
_UTF8_BYTES_MAX: Final = 4
_CODE: Final = re.compile(rf"[A-Z][A-Z0-9_]{{0,{limits.BUS_CODE_CHARS_MAX - 1}}}")
_TOPIC: Final = re.compile(rf"[^\x00-\x1f\x7f]{{1,{limits.BUS_TOPIC_CHARS_MAX}}}")

Outcome = Literal["accepted", "duplicate", "bad_sequence", "refused"]


class Hello(NamedTuple):
    """The first frame of each side."""

    instance: bytes
    """Another one each time that the agent starts."""
    number: int
    """Rises with each connection of the instance, in the order in which it dialled or took them."""
    chain: bytes
    topics: tuple[str, ...]
    """What the agent subscribes to."""
    statements: tuple[bytes, ...]
    """The newest that it knows of what the user has revoked."""


class Refusal(NamedTuple):
    """Why a connection or an envelope is refused. A refusal that is transient may be none later."""

    code: str
    transient: bool


class Answer(NamedTuple):
    """What became of the envelope with this sequence."""

    sequence: int
    outcome: Outcome
    expected: int = 0
    """Of a bad sequence: the smallest that would do."""
    refusal: Refusal | None = None


class Topics(NamedTuple):
    """What the agent subscribes to from now on."""

    names: tuple[str, ...]


class Statements(NamedTuple):
    """What the user has revoked, as the agent has just learned."""

    texts: tuple[bytes, ...]


class Alive(NamedTuple):
    """Nothing else was said for a while."""


class Renewal(NamedTuple):
    """A grant for the peer, in the place of one that ends soon."""

    line: str


Frame = Hello | Answer | Topics | Statements | Alive | Refusal | Renewal | Envelope


def encode_frame(frame: Hello | Answer | Topics | Statements | Alive | Refusal | Renewal) -> bytes:
    """The frame as it travels. What it holds was checked by whoever made it."""
    match frame:
        case Hello():
            start = struct.pack(f">BB{INSTANCE_BYTES}sI", _HELLO, VERSION, frame.instance, frame.number)
            return start + block(frame.chain) + _topics(frame.topics) + _statements(frame.statements)
        case Answer():
            start = struct.pack(">BQB", _ANSWER, frame.sequence, _OUTCOMES.index(frame.outcome))
            if frame.outcome == "bad_sequence":
                return start + struct.pack(">Q", frame.expected)
            return start if frame.refusal is None else start + _refusal(frame.refusal)
        case Topics():
            return bytes([_TOPICS]) + _topics(frame.names)
        case Statements():
            return bytes([_STATEMENTS]) + _statements(frame.texts)
        case Alive():
            return bytes([_ALIVE])
        case Refusal():
            return bytes([_REFUSAL]) + _refusal(frame)
        case Renewal():
            return bytes([_RENEWAL]) + block(frame.line.encode())


def decode_frame(data: Buffer) -> Frame:
    """What was said. Raises ``LinkInvalid``, or for an envelope what ``envelope.decode`` raises."""
    if data[:1] == ENVELOPE_TAG[:1]:
        return decode_envelope(data)
    reader = BlockReader(data)
    try:
        kind = reader.take(1)[0]
        if kind not in _READERS:
            raise Malformed(f"frames of kind {kind} are not known")
        frame = _READERS[kind](reader)
        reader.end()
    except (Malformed, UnicodeDecodeError) as error:
        raise LinkInvalid(f"the frame cannot be read: {error}") from error
    return frame


def is_topic(name: str) -> bool:
    """Whether a topic can be called this."""
    return _TOPIC.fullmatch(name) is not None


def _topics(names: Iterable[str]) -> bytes:
    encoded = [block(name.encode()) for name in names]
    return struct.pack(">H", len(encoded)) + b"".join(encoded)


def _statements(texts: tuple[bytes, ...]) -> bytes:
    return bytes([len(texts)]) + b"".join(map(block, texts))


def _refusal(refusal: Refusal) -> bytes:
    return bytes([refusal.transient]) + block(refusal.code.encode())


def _read_hello(reader: BlockReader) -> Hello:
    version = reader.take(1)[0]
    if version != VERSION:
        raise Malformed(f"version {version} is not known")
    return Hello(
        bytes(reader.take(INSTANCE_BYTES)),
        _number(reader, 4),
        bytes(reader.block(limits.BUS_CHAIN_BYTES_MAX)),
        _read_topics(reader),
        _read_statements(reader),
    )


def _read_answer(reader: BlockReader) -> Answer:
    sequence, outcome = _number(reader, 8), reader.take(1)[0]
    if outcome >= len(_OUTCOMES):
        raise Malformed(f"outcome {outcome} is not known")
    match _OUTCOMES[outcome]:
        case "bad_sequence":
            return Answer(sequence, "bad_sequence", expected=_number(reader, 8))
        case "refused":
            return Answer(sequence, "refused", refusal=_read_refusal(reader))
        case plain:
            return Answer(sequence, plain)


def _read_topics(reader: BlockReader) -> tuple[str, ...]:
    count = _number(reader, 2)
    if count > limits.BUS_SUBSCRIPTIONS_MAX:
        raise Malformed(f"{count} topics are more than {limits.BUS_SUBSCRIPTIONS_MAX}")
    names = tuple(
        bytes(reader.block(limits.BUS_TOPIC_CHARS_MAX * _UTF8_BYTES_MAX)).decode("utf-8") for _ in range(count)
    )
    if not all(map(is_topic, names)):
        raise Malformed("a topic cannot be called that")
    return names


def _read_statements(reader: BlockReader) -> tuple[bytes, ...]:
    count = reader.take(1)[0]
    if count > limits.BUS_STATEMENTS_MAX:
        raise Malformed(f"{count} statements are more than {limits.BUS_STATEMENTS_MAX}")
    return tuple(bytes(reader.block(STATEMENT_BYTES_MAX)) for _ in range(count))


def _read_refusal(reader: BlockReader) -> Refusal:
    transient = reader.take(1)[0]
    code = bytes(reader.block(limits.BUS_CODE_CHARS_MAX)).decode("ascii")
    if transient > 1 or not _CODE.fullmatch(code):
        raise Malformed("a refusal has a code, and is transient or not")
    return Refusal(code, bool(transient))


def _number(reader: BlockReader, count: int) -> int:
    return int.from_bytes(reader.take(count))


_READERS: Final[dict[int, Callable[[BlockReader], Frame]]] = {
    _HELLO: _read_hello,
    _ANSWER: _read_answer,
    _TOPICS: lambda reader: Topics(_read_topics(reader)),
    _STATEMENTS: lambda reader: Statements(_read_statements(reader)),
    _ALIVE: lambda reader: Alive(),
    _REFUSAL: _read_refusal,
    _RENEWAL: lambda reader: Renewal(bytes(reader.block(limits.BUS_LINE_CHARS_MAX)).decode("ascii")),
}
