"""Reading a server's settings from a TOML file: data, not code.

A key that is not known, or a value out of bounds, stops the start, and all mistakes are named at once.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from parley.core.errors import ConfigInvalid
from parley.core.setting_values import as_written, checked
from parley.core.settings import SettingSpec

T = TypeVar("T")


def load_settings(path: Path, defaults: T, specs: Iterable[SettingSpec]) -> T:
    """The settings of this file, and the defaults of what it does not name. Raises ``ConfigInvalid``."""
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return defaults
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _refusal(path.name, f"{path.name} cannot be read: {error}", path=str(path)) from error
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
            if spec is None:
                problems.append(f"{table}.{key} is not a setting")
                continue
            try:
                section = replace(getattr(settings, table), **{key: checked(spec, value)})
            except ValueError as error:
                problems.append(f"{spec.name} must be {error}, not {as_written(value)}")
                continue
            settings = replace(settings, **{table: section})
    if problems:
        raise _refusal(file, "; ".join(problems), problems=problems)
    return cast("T", settings)


def _refusal(file: str, text: str, **details: object) -> ConfigInvalid:
    error = ConfigInvalid(text, **details)
    error.hint = f"Correct the named key; docs/{file.removesuffix('.toml')}.md lists all settings."
    return error
