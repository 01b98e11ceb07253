"""Canonical JSON (RFC 8785): one value, one text.

``rfc8785`` does the rendering; this module refuses what would make two values share a text or fail later:
duplicate keys when decoding, whole numbers beyond 2**53 (also those written as ``1e16``), NaN, lone surrogates.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import msgspec
import rfc8785

from parley.core.errors import InvalidInput
from parley.core.untrusted_json import decode_by

_INEXACT_FROM: Final = 2.0**53
_EXPONENT_FROM: Final = 1e21
"""From here on a number is written with an exponent, and so is read as what it was."""
_render_texts: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def canonical_json(value: object) -> bytes:
    """The one UTF-8 text of this value. Raises ``InvalidInput`` for what JSON cannot hold exactly."""
    if not value and isinstance(value, dict):
        return b"{}"
    try:
        if _is_texts(value):  # as what each message is sealed with; a text has one form whoever renders it
            return _render_texts(value).encode()
        _refuse_inexact(value)
        return rfc8785.dumps(cast(Any, value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"not representable as canonical JSON: {error}") from error


def parse_strict(text: str | bytes) -> Any:
    """Decodes JSON, refusing duplicate keys and the constants NaN and Infinity."""
    return _decoded(_loads, text)


def repeated_key(text: str | bytes) -> str | None:
    """The key that an object in this JSON has twice, at whatever depth; None where each is there once.

    Most decoders take the last of the two values and say nothing, so sender and reader may see different ones.
    """
    repeated: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = Counter(name for name, _ in pairs)
        repeated.extend(name for name, times in names.items() if times > 1)

    _decoded(partial(json.loads, object_pairs_hook=look), text)
    return repeated[0] if repeated else None


def _decoded(loads: Callable[[bytes], Any], text: str | bytes) -> Any:
    try:
        return decode_by(loads, text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"not valid JSON: {error}") from error


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is str for each in cast("list[Any]", value))


def _refuse_inexact(value: object) -> None:
    """Refuses floats whose text would be that of a whole number which is refused when it is read again."""
    open_values: list[Any] = [value]
    while open_values:
        current = open_values.pop()
        if isinstance(current, float):
            if _INEXACT_FROM <= abs(current) < _EXPONENT_FROM:
                raise InvalidInput(f"not representable as canonical JSON: {current!r} is beyond 2**53")
        elif isinstance(current, dict):
            open_values.extend(cast("dict[Any, Any]", current).values())
        elif isinstance(current, list):
            open_values.extend(cast("list[Any]", current))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object repeats a key")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_loads: Final = partial(json.loads, object_pairs_hook=_unique, parse_constant=_no_constant)
