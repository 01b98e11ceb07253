"""Canonical JSON (RFC 8785): one value, one text.

``rfc8785`` does the rendering; this module refuses what would make two values share a text or fail later:
duplicate keys when decoding, integers beyond 2**53, NaN, lone surrogates.
"""

import json
from typing import Any, cast

import rfc8785

from parley.core.errors import InvalidInput


def canonical_json(value: object) -> bytes:
    """The one UTF-8 text of this value. Raises ``InvalidInput`` for what JSON cannot hold exactly."""
    try:
        return rfc8785.dumps(cast(Any, value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"not representable as canonical JSON: {error}") from error


def parse_strict(text: str | bytes) -> Any:
    """Decodes JSON, refusing duplicate keys and the constants NaN and Infinity."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not valid JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object repeats a key")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
