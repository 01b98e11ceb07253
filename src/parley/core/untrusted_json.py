"""Decoding JSON that somebody else wrote: a member of a mesh, a caller, a plugin, a hook, another program's file.

A decoder can fail in many ways: malformed text, broken UTF-8, numbers out of range, more nesting than the stack has
room for, more memory than there is. Here each of them is a ``msgspec.DecodeError``, so a caller that catches it has
caught everything, and no text can end a loop that reads many.

How deep a text is nested is looked at before it is decoded. What is let through can also be walked, encoded again and
passed on inside something else: at its limit the interpreter's own check would pass a value that fails one step later.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate, count
from operator import sub
from typing import Final, TypeVar

import msgspec

from parley.core.limits import JSON_BYTES_MAX, JSON_DOCUMENT_DEPTH_MAX

T = TypeVar("T")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)
"""Gives nothing back and takes a string without an end, too, so that no text is gone through twice."""
_STEPS: Final = bytes.maketrans(b"[{]}", b"\2\2\0\0")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class UnreadableJson(msgspec.DecodeError):
    """The text is no JSON that may be decoded."""


def decode(data: bytes | str, kind: type[T]) -> T:
    """The value in its type. Raises ``msgspec.DecodeError`` and nothing else."""
    return decode_by(_decoder(kind), data)


def decode_by(decoder: Callable[[bytes], T], data: bytes | str) -> T:
    """What the decoder makes of the text. Raises ``msgspec.DecodeError`` and nothing else."""
    try:
        text = data.encode() if isinstance(data, str) else data
        if len(text) > JSON_BYTES_MAX:
            raise UnreadableJson(f"JSON is larger than {JSON_BYTES_MAX} bytes")
        # Most texts have fewer brackets than they may have levels.
        brackets = text.count(b"[") + text.count(b"{")
        if brackets > JSON_DOCUMENT_DEPTH_MAX and is_deeper(text, JSON_DOCUMENT_DEPTH_MAX):
            raise UnreadableJson(f"JSON is nested deeper than {JSON_DOCUMENT_DEPTH_MAX}")
        return decoder(text)
    except msgspec.DecodeError:
        raise
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise UnreadableJson(str(error)) from error


@cache
def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def is_deeper(text: bytes, depth: int) -> bool:
    """Whether arrays and objects are nested deeper than this; of text that is no JSON it may say either.

    Strings and all but the brackets are taken away. At each bracket the depth is twice the number of those that open,
    up to there, less the number of all. No step is Python's own, and the text is gone through once, however deep it is.
    """
    steps = _STRING.sub(b"", text).translate(_STEPS, _NO_BRACKETS)
    return max(map(sub, accumulate(steps), count(1)), default=0) > depth
