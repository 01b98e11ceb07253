"""``daemon.toml``: data, not code. A key that is not known, or a value out of bounds, stops the start and is named."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from parley.core.daemon_settings import DaemonSettings, daemon_setting_specs
from parley.core.errors import ConfigInvalid
from parley.core.settings import SettingSpec


def load_daemon_settings(path: Path) -> DaemonSettings:
    """The settings of this file, and the defaults of what it does not name. Raises ``ConfigInvalid``."""
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return DaemonSettings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigInvalid(f"{path.name} cannot be read: {error}", path=str(path)) from error
    return parse_daemon_settings(document)


def parse_daemon_settings(document: dict[str, Any]) -> DaemonSettings:
    """The settings of a parsed file. Raises ``ConfigInvalid`` with all mistakes at once."""
    specs = {spec.name: spec for spec in daemon_setting_specs()}
    tables = {spec.table for spec in specs.values()}
    settings = DaemonSettings()
    problems: list[str] = []
    for table, content in document.items():
        if table not in tables or not isinstance(content, dict):
            problems.append(f"{table} is not a table of daemon.toml; known are {', '.join(sorted(tables))}")
            continue
        for key, value in cast("dict[str, Any]", content).items():
            spec = specs.get(f"{table}.{key}")
            problem = f"{table}.{key} is not a setting" if spec is None else _wrong_with(spec, value)
            if problem is not None:
                problems.append(problem)
                continue
            section = replace(getattr(settings, table), **{key: value})
            settings = replace(settings, **{table: section})
    if problems:
        raise ConfigInvalid("; ".join(problems), problems=problems)
    return settings


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
