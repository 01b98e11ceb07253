"""Bytes in a text that people paste: base64url without padding."""

import base64
from typing import Final

_FOREIGN: Final = frozenset("+/=")
"""What the decoder would take, and what is never written."""


def to_base64url(data: bytes) -> str:
    """The bytes as a text of letters, digits, ``-`` and ``_``."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes of the text. Raises ``ValueError`` for any other character, and for a text cut off inside a byte."""
    if not _FOREIGN.isdisjoint(text):
        raise ValueError("not base64url")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
