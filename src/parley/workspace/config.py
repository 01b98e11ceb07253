"""``parley.toml``: data, not code.

Every key has to be known and every value of its type and within its bounds; anything else stops the start, because a
setting that is silently ignored is worse than none. All mistakes of a file are reported at once.
"""

import difflib
import math
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from parley.core.errors import ConfigInvalid
from parley.core.settings import Settings, SettingSpec, setting_specs

_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
}


def load_settings(path: Path) -> Settings:
    """The settings of this file, and the defaults of what it does not name. No file means all defaults.

    Raises ``ConfigInvalid``, which names each ``table.key`` that is wrong and what is allowed there.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path.name} cannot be read: {error}", path=str(path)) from error
    try:
        return parse_settings(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path.name} is not valid TOML: {error}", path=str(path)) from error


def parse_settings(document: dict[str, Any]) -> Settings:
    """The settings of a parsed file. Raises ``ConfigInvalid``."""
    tables: dict[str, dict[str, SettingSpec]] = {}
    for spec in setting_specs():
        tables.setdefault(spec.table, {})[spec.key] = spec
    problems: list[str] = []
    settings = Settings()
    for table, content in document.items():
        if table not in tables:
            problems.append(f"{table} is not a table of parley.toml{_suggestion(table, tables)}")
        elif not isinstance(content, dict):
            problems.append(f"{table} must be a table: [{table}]")
        else:
            values = _read_table(cast(dict[str, Any], content), table, tables[table], problems)
            settings = replace(settings, **{table: replace(getattr(settings, table), **values)})
    if problems:
        raise ConfigInvalid("; ".join(problems), problems=problems)
    return settings


def render_default_toml() -> str:
    """A ``parley.toml`` that says everything and changes nothing: each key with its meaning, commented out."""
    lines = ["# Settings of this workspace. A key without its # takes effect at the next start of the hub."]
    table = ""
    for spec in setting_specs():
        if spec.table != table:
            table = spec.table
            lines += ["", f"[{table}]"]
        allowed = allowed_values(spec)
        lines += [f"# {spec.meaning}{f' ({allowed})' if allowed else ''}", f"# {spec.key} = {_toml(spec.default)}"]
    return "\n".join(lines) + "\n"


def allowed_values(spec: SettingSpec) -> str:
    """Bounds or choices in words; empty when every value of the type is allowed."""
    if spec.choices:
        return "one of " + ", ".join(spec.choices)
    low, high = (
        None if bound is None else f"{bound:g}" if bound < 1 else f"{bound:,}" for bound in (spec.low, spec.high)
    )
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def _read_table(
    content: dict[str, Any], table: str, specs: dict[str, SettingSpec], problems: list[str]
) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in content.items():
        spec = specs.get(key)
        if spec is None:
            problems.append(f"{table}.{key} is not a setting{_suggestion(key, specs)}")
            continue
        try:
            values[key] = _checked(spec, value)
        except ValueError as error:
            problems.append(f"{spec.name} must be {error}, not {_toml(value)}")
    return values


def _checked(spec: SettingSpec, value: object) -> object:
    """The value as the settings hold it. Raises ``ValueError`` with what is allowed."""
    kind: type = type(spec.default)
    value = _converted(kind, value)
    if type(value) is not kind:  # not isinstance: true is no number
        raise ValueError(_KINDS[kind])
    allowed = allowed_values(spec)
    if spec.choices and value not in spec.choices:
        raise ValueError(allowed)
    if isinstance(value, int | float):
        low, high = spec.low, spec.high
        if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(allowed or _KINDS[kind])
    return value


def _converted(kind: type, value: object) -> object:
    """A whole number where any number is allowed, and a list of texts, in the type of the settings."""
    if kind is float and type(value) is int:
        return float(value)
    if kind is tuple and isinstance(value, list):
        items = cast(list[object], value)
        return tuple(items) if all(isinstance(item, str) for item in items) else items
    return value


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in cast(tuple[object, ...], value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
