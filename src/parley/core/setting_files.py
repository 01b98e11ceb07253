"""Reading a server's settings from a TOML file: data, not code.

A key that is not known, or a value out of bounds, stops the start, and all mistakes are named at once.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from parley.core.errors import ConfigInvalid
from parley.core.settings import SettingSpec

T = TypeVar("T")


def load_settings(path: Path, defaults: T, specs: Iterable[SettingSpec]) -> T:
    """The settings of this file, and the defaults of what it does not name. Raises ``ConfigInvalid``."""
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return defaults
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigInvalid(f"{path.name} cannot be read: {error}", path=str(path)) from error
    return parse_settings(path.name, document, defaults, specs)


def parse_settings(file: str, document: dict[str, Any], defaults: T, specs: Iterable[SettingSpec]) -> T:
    """The settings of a parsed file. Raises ``ConfigInvalid`` with all mistakes at once."""
    known = {spec.name: spec for spec in specs}
    tables = {spec.table for spec in known.values()}
    settings: Any = defaults
    problems: list[str] = []
    for table, content in document.items():
        if table not in tables or not isinstance(content, dict):
            problems.append(f"{table} is not a table of {file}; known are {', '.join(sorted(tables))}")
            continue
        for key, value in cast("dict[str, Any]", content).items():
            spec = known.get(f"{table}.{key}")
            problem = f"{table}.{key} is not a setting" if spec is None else _wrong_with(spec, value)
            if problem is not None:
                problems.append(problem)
                continue
            section = replace(getattr(settings, table), **{key: value})
            settings = replace(settings, **{table: section})
    if problems:
        raise ConfigInvalid("; ".join(problems), problems=problems)
    return cast("T", settings)


def _wrong_with(spec: SettingSpec, value: object) -> str | None:
    kinds = (int, float) if spec.kind is float else (spec.kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and spec.kind is not bool):
        return f"{spec.name} must be {spec.kind.__name__}, not {value!r}"
    if spec.choices and value not in spec.choices:
        return f"{spec.name} must be one of {', '.join(spec.choices)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        too_low = spec.low is not None and value < spec.low
        if too_low or (spec.high is not None and value > spec.high):
            return f"{spec.name} must lie between {spec.low} and {spec.high}"
    return None
