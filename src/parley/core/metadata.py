"""The rules for metadata that people see: an attachment's value, what a plugin says about a part of a message."""

from typing import Any, cast

from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput, PayloadTooLarge
from parley.core.limits import JSON_DEPTH_MAX
from parley.core.urls import LINK_KINDS, check_link


def check_metadata(kind: str, value: dict[str, Any], bytes_max: int, *, field: str = "value_json") -> str:
    """The canonical text of the metadata, if it may be stored. Raises ``InvalidInput`` or ``PayloadTooLarge``."""
    if _depth(value) > JSON_DEPTH_MAX:
        raise InvalidInput(f"{field} is nested deeper than {JSON_DEPTH_MAX}", field=field)
    if kind.strip().casefold() in LINK_KINDS:
        check_link(value, field=field)
    try:
        text = canonical_json(value)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from error
    if len(text) > bytes_max:
        raise PayloadTooLarge(f"{field} is larger than {bytes_max} bytes", limit_bytes=bytes_max)
    return text.decode()


def _depth(value: object) -> int:
    """How deep the value is nested, found without recursion."""
    deepest = 0
    open_values: list[tuple[Any, int]] = [(value, 1)]
    while open_values:
        current, depth = open_values.pop()
        deepest = max(deepest, depth)
        if isinstance(current, dict):
            members = cast("dict[str, Any]", current)
            open_values.extend((child, depth + 1) for child in members.values())
        elif isinstance(current, list):
            open_values.extend((child, depth + 1) for child in cast("list[Any]", current))
    return deepest
