"""Lines that people carry from one machine to another: a request, a grant, a statement.

``parley-bus-KIND-1:`` and base64url of ``u32 length ‖ payload ‖ check 8``. The check is the beginning of BLAKE3 over
the prefix and the payload. Anybody can make it, so it stops nobody; it only tells a line that was cut off or mistyped
from one that was forged. Spaces and line breaks are passed over, since terminals and mail put them there.
"""

import re
from typing import Final, Literal, NamedTuple, get_args

from blake3 import blake3

from parley.bus.blocks import BlockReader, Malformed, block
from parley.core import limits
from parley.core.base64url import from_base64url, to_base64url
from parley.core.bus_errors import LineInvalid

Kind = Literal["request", "grant", "statement"]
VERSION: Final = 1
_CHECK_BYTES: Final = 8
_BEGINNING: Final = "parley-bus-"
_PREFIX: Final = re.compile(rf"{_BEGINNING}([a-z]{{1,20}})-([0-9]{{1,4}}):")


class Line(NamedTuple):
    """What a line carries. Only its check was looked at."""

    kind: Kind
    payload: bytes


def write_line(kind: Kind, payload: bytes) -> str:
    """The line, without a line break."""
    prefix = _prefix(kind)
    return prefix + to_base64url(block(payload) + _check(prefix, payload))


def read_line(text: str, *wanted: Kind) -> Line:
    """The line, if it is of a kind that is wanted. Raises ``LineInvalid``, with a ``reason`` among its details."""
    if len(text) > limits.BUS_LINE_CHARS_MAX:
        raise LineInvalid(f"a line has at most {limits.BUS_LINE_CHARS_MAX} characters", reason="too_long")
    joined = "".join(text.split())
    found = _PREFIX.match(joined)
    kind = next((each for each in get_args(Kind) if found is not None and found[1] == each), None)
    if found is None or kind is None:
        raise LineInvalid(f"this is no line of the bus: it does not begin with {_BEGINNING}…", reason="foreign")
    if int(found[2]) != VERSION:
        raise LineInvalid(f"the line is of version {found[2]}, which this Parley does not know", reason="version")
    if kind not in wanted:
        raise LineInvalid(f"this is a {kind}, where a {' or a '.join(wanted)} is needed", reason="kind", kind=kind)
    return Line(kind, _payload(found[0], joined[found.end() :]))


def split_lines(text: str) -> list[str]:
    """The lines of a text that holds several; one that was wrapped stays one."""
    return re.split(rf"\s+(?={_BEGINNING})", text.strip())


def _payload(prefix: str, text: str) -> bytes:
    try:
        reader = BlockReader(from_base64url(text))
        length = int.from_bytes(reader.take(4))
        if reader.left < length + _CHECK_BYTES:
            raise LineInvalid("the end of the line is missing", reason="truncated")
        payload, check = bytes(reader.take(length)), bytes(reader.take(_CHECK_BYTES))
        reader.end()
    except (ValueError, Malformed) as error:
        raise LineInvalid("the line was cut off or changed", reason="damaged") from error
    if check != _check(prefix, payload):
        raise LineInvalid("the line was changed on its way", reason="damaged")
    return payload


def _prefix(kind: Kind) -> str:
    return f"{_BEGINNING}{kind}-{VERSION}:"


def _check(prefix: str, payload: bytes) -> bytes:
    return blake3(prefix.encode() + payload).digest()[:_CHECK_BYTES]
