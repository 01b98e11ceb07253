"""Settings that a command takes as flags too: each is declared once, with its setting.

What was given on a command line is a mapping from ``table.key`` to the value. It is laid over what a file says, and is
told to a process that is started apart as flags again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from parley.core.settings import SettingSpec

T = TypeVar("T")
Given = Mapping[str, Any]


class SettingFlag(NamedTuple):
    """A setting with the flag that it has."""

    spec: SettingSpec
    name: str

    @property
    def parameter(self) -> str:
        """The flag as the name of a parameter."""
        return self.name.removeprefix("--").replace("-", "_")


def setting_flags(specs: Iterable[SettingSpec]) -> tuple[SettingFlag, ...]:
    """The settings that have a flag."""
    return tuple(SettingFlag(spec, spec.flag) for spec in specs if spec.flag is not None)


def given_by(flags: Iterable[SettingFlag], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What was named, with paths that mean the same in every folder. A flag of a yes or no says the other one."""
    given: dict[str, Any] = {}
    for spec, name in flags:
        value = parameters[SettingFlag(spec, name).parameter]
        if spec.kind is bool:
            if value:
                given[spec.name] = not spec.default
        elif value is not None:
            is_path = spec.is_path and "://" not in value
            given[spec.name] = str(Path(value).absolute()) if is_path else value
    return given


def laid_over(settings: T, given: Given) -> T:
    """The settings with what was given in place of what they say."""
    changed: Any = settings
    for name, value in given.items():
        table, _, key = name.partition(".")
        changed = replace(changed, **{table: replace(getattr(changed, table), **{key: value})})
    return changed


def arguments(flags: Iterable[SettingFlag], given: Given) -> list[str]:
    """The same as flags, for a process that will serve."""
    told: list[str] = []
    for spec, name in flags:
        if spec.name in given:
            told += [name] if spec.kind is bool else [name, str(given[spec.name])]
    return told
