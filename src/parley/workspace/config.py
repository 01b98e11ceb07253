"""``parley.toml``: data, not code.

Every key has to be known and every value of its type and within its bounds; anything else stops the start, because a
setting that is silently ignored is worse than none. All mistakes of a file are reported at once.
"""

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from parley.core.errors import ConfigInvalid
from parley.core.setting_values import as_written, checked
from parley.core.settings import (
    BUILTIN_PLUGINS,
    PluginSettings,
    Settings,
    SettingSpec,
    setting_specs,
    table_specs,
)

_PLUGINS: Final = "plugins"


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
        elif table == _PLUGINS:
            settings = replace(settings, plugins=_read_plugins(content, tables[table], problems))
        elif not isinstance(content, dict):
            problems.append(f"{table} must be a table: [{table}]")
        else:
            values = _read_table(cast(dict[str, Any], content), table, tables[table], problems)
            settings = replace(settings, **{table: replace(getattr(settings, table), **values)})
    if problems:
        raise ConfigInvalid("; ".join(problems), problems=problems)
    return settings


def _read_table(
    content: dict[str, Any], table: str, specs: dict[str, SettingSpec], problems: list[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in content.items():
        spec = specs.get(key)
        if spec is None:
            problems.append(f"{table}.{key} is not a setting{_suggestion(key, specs)}")
            continue
        try:
            values[key] = checked(spec, value)
        except ValueError as error:
            problems.append(f"{table}.{key} must be {error}, not {as_written(value)}")
    problems += [f"{table}.{key} is missing" for key, spec in specs.items() if spec.required and key not in content]
    return values


def _read_plugins(content: object, specs: dict[str, SettingSpec], problems: list[str]) -> tuple[PluginSettings, ...]:
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in cast(list[object], content)):
        problems.append(f"{_PLUGINS} must be a list of tables: [[{_PLUGINS}]]")
        return ()
    plugins: list[PluginSettings] = []
    labels: set[str] = set()
    for number, entry in enumerate(cast(list[dict[str, Any]], content), start=1):
        name = entry.get("name")
        label = f"{_PLUGINS}.{name}" if isinstance(name, str) and name else f"{_PLUGINS}.#{number}"
        mistakes: list[str] = []
        if label in labels:
            mistakes.append(f"{label} is there twice; each plugin needs a name of its own")
        labels.add(label)
        values = _read_table(entry, label, specs, mistakes)
        if not mistakes:
            plugin = PluginSettings(**values)
            plugins.append(plugin)
            mistakes += _plugin_mistakes(plugin, label)
        problems += mistakes
    return tuple(plugins)


def _plugin_mistakes(plugin: PluginSettings, label: str) -> list[str]:
    """What is wrong between the keys of one plugin."""
    if plugin.module is not None:
        return [f"{label} has both a module and a builtin; leave one out"] if plugin.builtin is not None else []
    builtin = BUILTIN_PLUGINS.get(plugin.builtin_name)
    if builtin is None:
        return [f"{label} needs a module; only {', '.join(BUILTIN_PLUGINS)} are built in"]
    mistakes: list[str] = []
    if plugin.type != builtin.type:
        mistakes.append(f"{label}.type must be {builtin.type} for the built-in {plugin.builtin_name}")
    table = f"{label}.config"
    _read_table(dict(plugin.config), table, {spec.key: spec for spec in table_specs(table, builtin.config)}, mistakes)
    return mistakes


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
