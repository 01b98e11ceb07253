"""The five headers that every answer carries, byte for byte those that existing clients compare."""

from collections.abc import Iterable, Sequence
from typing import Final

HeaderList = Sequence[tuple[bytes, bytes]]
"""Names in lower case, as ASGI wants them."""

SECURITY_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-xss-protection", b"1; mode=block"),
    (
        b"content-security-policy",
        (
            b"default-src 'self'; script-src 'self'; style-src 'self'; "
            b"connect-src 'self' ws://localhost:* ws://127.0.0.1:*; frame-ancestors 'none'"
        ),
    ),
    (b"referrer-policy", b"no-referrer"),
)


def head_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The headers as they stand in an answer."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])
