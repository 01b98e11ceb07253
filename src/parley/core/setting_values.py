"""What a setting may be: the one check of a value that was read from a TOML file, and its words."""

import math
from typing import Final, cast

from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput
from parley.core.settings import SettingSpec

_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
    dict: "a table of texts, numbers, true or false, lists and tables",
}


def checked(spec: SettingSpec, value: object) -> object:
    """The value as the settings hold it. Raises ``ValueError`` with what is allowed."""
    kind = spec.kind
    value = _converted(kind, value)
    if type(value) is not kind or (kind is dict and not _is_json(value)):  # not isinstance: true is no number
        raise ValueError(_KINDS[kind])
    allowed = allowed_values(spec)
    if spec.choices and value not in spec.choices:
        raise ValueError(allowed)
    if spec.form is not None:
        texts = cast("tuple[str, ...]", value) if kind is tuple else (cast(str, value),)
        if not all(spec.form[0].fullmatch(text) for text in texts):
            raise ValueError(allowed)
    if isinstance(value, int | float):
        low, high = spec.low, spec.high
        if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(allowed or _KINDS[kind])
    return value


def as_written(value: object) -> str:
    """The value as a TOML file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(as_written(item) for item in cast(list[object], value)) + "]"
    if isinstance(value, dict):
        members = (f"{key} = {as_written(item)}" for key, item in cast(dict[str, object], value).items())
        return "{ " + ", ".join(members) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def allowed_values(spec: SettingSpec) -> str:
    """Bounds, choices or form in words; empty when every value of the type is allowed."""
    if spec.form is not None:
        return spec.form[1]
    if spec.choices:
        return "one of " + ", ".join(spec.choices)
    low, high = (
        None if bound is None else f"{bound:g}" if bound < 1 else f"{bound:,}" for bound in (spec.low, spec.high)
    )
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def _converted(kind: type, value: object) -> object:
    """A whole number where any number is allowed, and a list of texts, in the type of the settings."""
    if kind is float and type(value) is int:
        return float(value)
    if kind is tuple and isinstance(value, list):
        items = cast(list[object], value)
        return tuple(items) if all(isinstance(item, str) for item in items) else items
    return value


def _is_json(value: object) -> bool:
    """Whether JSON holds the value exactly: TOML also knows dates, infinity and larger numbers."""
    try:
        canonical_json(value)
    except InvalidInput:
        return False
    return True
