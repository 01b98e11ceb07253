"""The default embedder for many texts at once: the steps of ``parley.core.ngrams``, with numpy.

All texts of a batch lie in one array of code points, and each step is taken for all of them together. Every number up
to the quotient is whole and small enough for a float to hold exactly, and the quotient and the square root are rounded
as the standard says, so the result is the same to the last bit; a test holds both to that.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from parley.core.ngrams import FNV_OFFSET, FNV_PRIME, IDENTITY, LONGEST, MIX_1, MIX_2, SHORTEST, folded

Array = np.ndarray[Any, Any]
CODE_POINTS_AT_ONCE: Final = 1 << 20
"""What is worked on together: the arrays that come and go are then some tens of megabytes."""
TEXTS_AT_ONCE: Final = 4_096


def embed_texts(texts: Sequence[str]) -> Array:
    """One row of 384 32-bit floats for each text, in order."""
    parts = [_normalised(_sums(part)) for part in _parts(texts)]
    return np.concatenate(parts) if parts else np.zeros((0, IDENTITY.dim), dtype=np.float32)


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """The folded texts, in parts of bearable size."""
    part: list[str] = []
    points = 0
    for text in map(folded, texts):
        part.append(text)
        points += len(text)
        if points >= CODE_POINTS_AT_ONCE or len(part) >= TEXTS_AT_ONCE:
            yield part
            part, points = [], 0
    if part:
        yield part


def _sums(texts: list[str]) -> Array:
    """The sum of the signs in each component of each text."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint32)
    starts = np.arange(len(points), dtype=np.int64)
    text_of = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    ends = np.repeat(np.cumsum(lengths), lengths)
    hashes = np.full(len(points), FNV_OFFSET, dtype=np.uint32)
    sums = np.zeros(len(texts) * IDENTITY.dim)
    for length in range(1, LONGEST + 1):
        within = starts + length <= ends  # an n-gram does not reach into the next text
        starts, text_of, ends, hashes = starts[within], text_of[within], ends[within], hashes[within]
        hashes = (hashes ^ points[starts + length - 1]) * np.uint32(FNV_PRIME)
        if length >= SHORTEST:
            mixed = _mix(hashes)
            places = text_of * IDENTITY.dim + (mixed >> np.uint32(1)) % np.uint32(IDENTITY.dim)
            signs = np.where(mixed & np.uint32(1), 1.0, -1.0)
            sums += np.bincount(places, signs, minlength=len(sums))
    return sums.reshape(len(texts), IDENTITY.dim)


def _mix(values: Array) -> Array:
    values = (values ^ (values >> np.uint32(16))) * np.uint32(MIX_1)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(MIX_2)
    return values ^ (values >> np.uint32(16))


def _normalised(sums: Array) -> Array:
    sizes = np.abs(sums)
    totals = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    return np.copysign(np.sqrt(shares), sums).astype(np.float32)
