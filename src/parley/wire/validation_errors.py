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
_MEMBER: Final = re.compile(r"Object (missing required|contains unknown) field `(.+)`")
_MEMBERS: Final = {"missing required": "must be given", "contains unknown": "is not known"}
_MISMATCHES: Final = {
    f"Expected `str` matching regex {pattern!r}": words
    for pattern, words in {**PATTERN_WORDS, **MESH_PATTERN_WORDS}.items()
}
_LENGTH: Final = re.compile(r"Expected `(str|array|object)(?: \| null)?` of length (<=|>=) (\d+)")
_RANGE: Final = re.compile(r"Expected `(?:int|float)(?: \| null)?` (<=|>=|<|>) (-?[\d.]+)")
_KIND: Final = re.compile(r"Expected `([a-z| ]+)`, got `([a-z]+)`")
_CHOICE: Final = re.compile(r"Invalid enum value (.+)")
_SIDES: Final = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_NAMES: Final = {"str": "characters", "array": "items", "object": "members"}
_KINDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""JSON's kinds of values in words; what is not here is called as the decoder calls it."""
_GIVEN: Final = {**_KINDS, "float": "one with a fraction"}


def invalid(error: msgspec.ValidationError, **details: object) -> InvalidInput:
    """The refusal that a mistake in a body deserves."""
    field, text = mistake(error)
    if not field:
        return InvalidInput(f"What was sent {text}", **details)
    return InvalidInput(f"{field}: {text}", field=field, **details)


def in_words(error: msgspec.ValidationError) -> str:
    """The mistake alone, for who says beside it what was judged."""
    field, text = mistake(error)
    return f"{field}: {text}" if field else text


def mistake(error: msgspec.ValidationError) -> tuple[str, str]:
    """The member that is wrong, empty where it is the whole, and what is wrong with it."""
    text, _, place = str(error).partition(" - at `")
    field = place.rstrip("`").removeprefix("$").lstrip(".")
    member = _MEMBER.fullmatch(text)
    if member is not None:
        return f"{field}.{member[2]}" if field else member[2], _MEMBERS[member[1]]
    return field, _MISMATCHES.get(text) or _bounds(text) or _kinds(text) or text


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


def _kinds(text: str) -> str | None:
    """A value of a kind that is not asked for, or that is not among those that are, in words."""
    kind = _KIND.fullmatch(text)
    if kind is not None:
        wanted = " or ".join(_KINDS.get(each, each) for each in kind[1].split(" | "))
        return f"must be {wanted}, not {_GIVEN.get(kind[2], kind[2])}"
    choice = _CHOICE.fullmatch(text)
    return None if choice is None else f"cannot be {choice[1]}"
