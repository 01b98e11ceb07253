"""The embedder that is always there: hashed character n-grams, without a download, a server or a number to train.

Texts that share spellings are near each other, so it finds names, identifiers, error messages and other forms of a
word, in any language; it knows nothing of synonyms. What it does is written here to the last bit, because vectors of
two machines are compared:

1. The text is case-folded, its runs of white space become one blank, and one blank is put before and after it.
2. Each run of 3, 4 and 5 code points in it is hashed: FNV-1a over the code points with 32 bits, then the final mix
   of MurmurHash3, so that every bit of the hash depends on every character.
3. The lowest bit of the hash is a sign, and the rest modulo 384 a component; the signs of a component are added up.
4. A component of sum ``s`` becomes ``±sqrt(|s| / S)`` with the sign of ``s``, where ``S`` is the sum of all ``|s|``:
   the square root keeps one word that is repeated from drowning the rest, and gives the vector its length of 1.

Up to the fourth step there are only whole numbers, and a quotient and a square root are rounded the same everywhere;
so whoever follows the steps gets the same 32-bit floats, as the pipeline does for many texts at once. Any change here
is another model: raise ``IDENTITY.model_version``.
"""

import math
from array import array
from collections.abc import Sequence
from typing import Final

from parley.core.models import ModelIdentity

IDENTITY: Final = ModelIdentity("parley", "hashed-ngrams", "1", 384)
SHORTEST: Final = 3
LONGEST: Final = 5
FNV_OFFSET: Final = 0x811C9DC5
FNV_PRIME: Final = 0x01000193
MIX_1: Final = 0x85EBCA6B
MIX_2: Final = 0xC2B2AE35
_MASK: Final = 0xFFFFFFFF


class HashedNgrams:
    """The embedder, one text after the other."""

    @property
    def identity(self) -> ModelIdentity:
        """What the model is."""
        return IDENTITY

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in order."""
        return [embed_text(text) for text in texts]


def folded(text: str) -> str:
    """The text as it is cut into n-grams; empty if it says nothing."""
    words = text.casefold().split()
    return f" {' '.join(words)} " if words else ""


def embed_text(text: str) -> list[float]:
    """The vector of one text: 384 numbers that a 32-bit float holds, all zero for a text that is blank."""
    sums = [0] * IDENTITY.dim
    points = [ord(character) for character in folded(text)]
    for start in range(len(points) - SHORTEST + 1):
        value = FNV_OFFSET
        for length, point in enumerate(points[start : start + LONGEST], start=1):
            value = (value ^ point) * FNV_PRIME & _MASK
            if length >= SHORTEST:
                mixed = _mix(value)
                sums[(mixed >> 1) % IDENTITY.dim] += 1 if mixed & 1 else -1
    total = sum(map(abs, sums))
    if total == 0:
        return [0.0] * IDENTITY.dim
    return array("f", (math.copysign(math.sqrt(abs(each) / total), each) for each in sums)).tolist()


def _mix(value: int) -> int:
    value = (value ^ value >> 16) * MIX_1 & _MASK
    value = (value ^ value >> 13) * MIX_2 & _MASK
    return value ^ value >> 16
