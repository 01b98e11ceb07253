"""What somebody is told whose body is not of the form that was asked for: which member, and what is allowed there.

The decoder names the place as ``$.field`` and a pattern as it is written; a person wants ``field`` and a sentence.
"""

import re
from typing import Final

import msgspec

from parley.core.errors import InvalidInput
from parley.wire import broker, mesh_http, mesh_methods
from parley.wire.requests import PATTERN_WORDS

MESH_PATTERN_WORDS: Final = {
    mesh_http.SLUG_PATTERN: "must be lowercase letters, digits and '-', and begin with a letter or a digit",
    mesh_http.NAME_PATTERN: f"must be {mesh_http.NAME_WORDS}",
    mesh_methods.GROUP_PATTERN: "must not be empty or contain '@', '*' or control characters",
    mesh_methods.BASE64_PATTERN: "must be base64",
    broker.REFERENCE_PATTERN: "must not be empty or contain control characters",
    broker.KEY_PATTERN: "must be 64 hexadecimal digits",
    broker.SIGNATURE_PATTERN: "must be 128 hexadecimal digits",
}
"""The patterns of meshes, in words, as ``PATTERN_WORDS`` has those of hubs."""
_MISSING: Final = "Object missing required field `"
_MISMATCHES: Final = {
    f"Expected `str` matching regex {pattern!r}": words
    for pattern, words in {**PATTERN_WORDS, **MESH_PATTERN_WORDS}.items()
}
_LENGTH: Final = re.compile(r"Expected `(str|array|object)(?: \| null)?` of length (<=|>=) (\d+)")
_RANGE: Final = re.compile(r"Expected `(?:int|float)(?: \| null)?` (<=|>=|<|>) (-?[\d.]+)")
_SIDES: Final = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_NAMES: Final = {"str": "characters", "array": "items", "object": "members"}


def invalid(error: msgspec.ValidationError, **details: object) -> InvalidInput:
    """The refusal that a mistake in a body deserves."""
    text, _, place = str(error).partition(" - at `")
    field = place.rstrip("`").removeprefix("$").lstrip(".")
    if text.startswith(_MISSING):
        field, text = text.removeprefix(_MISSING).rstrip("`"), "must be given"
    text = _MISMATCHES.get(text) or _bounds(text) or text
    return InvalidInput(f"{field}: {text}" if field else text, **({"field": field} if field else {}), **details)


def _bounds(text: str) -> str | None:
    """A length or a number that is out of bounds, in words."""
    number = _RANGE.fullmatch(text)
    if number is not None:
        return f"must be {_SIDES[number[1]]} {number[2]}"
    length = _LENGTH.fullmatch(text)
    if length is None:
        return None
    if (length[2], length[3]) == (">=", "1"):
        return "must not be empty"
    return f"must have {_SIDES[length[2]]} {length[3]} {_NAMES[length[1]]}"
