"""Fingerprints: BLAKE3-256 of a raw public key, by which agents and users are named."""

import re
from functools import lru_cache
from typing import Annotated, Final, NewType

from blake3 import blake3
from msgspec import Meta

from parley.core.errors import InvalidInput

Fingerprint = NewType("Fingerprint", bytes)
"""The 32 bytes."""

FINGERPRINT_BYTES: Final = 32
_CACHED: Final = 1_024
"""The same few keys are named with every message."""
SHORT_CHARS: Final = 12
"""Characters of a fingerprint that people are shown in a list; never enough to decide on."""

Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?![\s\S])")]
"""A public key or a fingerprint in a signed text."""
_TEXT: Final = re.compile("[0-9a-f]{64}")


@lru_cache(_CACHED)
def fingerprint_of(public: bytes) -> Fingerprint:
    """The name of whoever has this public key."""
    return Fingerprint(blake3(public).digest())


def parse_fingerprint(text: str) -> Fingerprint:
    """The fingerprint that a person gave in full. Raises ``InvalidInput`` for anything else, a short one included."""
    if not _TEXT.fullmatch(text.strip().lower()):
        raise InvalidInput("a fingerprint has 64 hexadecimal characters", field="fingerprint")
    return Fingerprint(bytes.fromhex(text.strip()))


def short(fingerprint: Fingerprint) -> str:
    """The beginning, for lists."""
    return fingerprint.hex()[:SHORT_CHARS]
