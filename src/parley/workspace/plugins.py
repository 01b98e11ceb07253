"""The plugins of a workspace, read from its files but never run here.

A module is read once, into memory, and what was read is what is hashed, checked and later handed to the sandbox: a file
that changes in between changes nothing. Code that nobody has trusted is not even parsed, since a parser is no place
for a stranger's text.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, NamedTuple

from parley.core.canonical import canonical_json
from parley.core.settings import PluginSettings, Settings
from parley.workspace.layout import Workspace
from parley.workspace.plugin_files import UnusableModule, read_module
from parley.workspace.plugin_source import source_problem

BUILTIN_PACKAGE: Final = "parley.plugin.builtin"
FUNCTIONS: Final[Mapping[str, str]] = {"linkifier": "enrich", "extractor": "extract"}
"""The function that a plugin of each type has."""
PluginState = Literal["ready", "untrusted", "broken", "disabled"]


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin as a hub would run it, or the reason why it does not run."""

    settings: PluginSettings
    state: PluginState
    problem: str | None
    """What is wrong and what to do about it; None when nothing is."""
    entry: str
    """The name under which the worker imports it."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """What the worker sees of it, by relative path; nothing for a built-in, which the worker has."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings.name

    @property
    def source(self) -> str:
        """``built-in``, or the module's path as ``parley.toml`` names it."""
        return self.settings.source

    @property
    def function(self) -> str:
        """The function that is called for each message."""
        return FUNCTIONS[self.settings.type]


class Measured(NamedTuple):
    """What a person trusts: one digest, and the SHA-256 of each file that goes into it, to tell which one changed."""

    digest: str
    files: Mapping[str, str]
    """By path from the workspace's root; empty for a file that could not be read."""


def load_plugins(workspace: Workspace, settings: Settings, trusted: Callable[[str], bool]) -> tuple[LoadedPlugin, ...]:
    """Every plugin of the settings, in their order. ``trusted`` says whether the user trusts a digest."""
    modules = _read_modules(workspace, settings)
    measured = _measure(workspace, settings, modules)
    believed = bool(modules) and trusted(measured.digest)
    return tuple(_loaded(plugin, modules, believed) for plugin in settings.plugins)


def measure(workspace: Workspace, settings: Settings) -> Measured:
    """The digest of ``parley.toml`` and all modules as they are now, and of each file."""
    return _measure(workspace, settings, _read_modules(workspace, settings))


def needs_trust(settings: Settings) -> bool:
    """Whether the workspace brings code of its own that would run. Built-ins are part of Parley."""
    return any(plugin.enabled and plugin.module is not None for plugin in settings.plugins)


_Modules = Mapping[str, Mapping[str, bytes] | UnusableModule]
"""By the module's path, its files or why there are none."""


def _read_modules(workspace: Workspace, settings: Settings) -> _Modules:
    modules: dict[str, Mapping[str, bytes] | UnusableModule] = {}
    for path in sorted({plugin.module for plugin in settings.plugins if plugin.module is not None}):
        try:
            modules[path] = read_module(workspace, path)
        except UnusableModule as problem:
            modules[path] = problem
    return modules


def _measure(workspace: Workspace, settings: Settings, modules: _Modules) -> Measured:
    files: dict[str, str] = {}
    try:
        files[workspace.config.name] = _sha256(workspace.config.read_bytes())
    except OSError:
        files[workspace.config.name] = ""
    for path, content in modules.items():
        if isinstance(content, UnusableModule):
            files[path] = ""
            continue
        folder = path.rpartition("/")[0]
        for name, data in content.items():
            files[f"{folder}/{name}" if folder else name] = _sha256(data)
    # The settings as they were understood are in it too: another --config, or a file swapped while it was being read,
    # must not borrow the trust of the one that a person has seen.
    understood = [asdict(plugin) for plugin in settings.plugins]
    return Measured(_sha256(canonical_json({"version": 1, "files": files, "plugins": understood})), files)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _loaded(plugin: PluginSettings, modules: _Modules, trusted: bool) -> LoadedPlugin:
    if plugin.module is None:
        return LoadedPlugin(
            plugin, "ready" if plugin.enabled else "disabled", None, f"{BUILTIN_PACKAGE}.{plugin.builtin_name}"
        )
    entry = plugin.module.rstrip("/").rpartition("/")[2].removesuffix(".py")
    if not plugin.enabled:
        return LoadedPlugin(plugin, "disabled", None, entry)
    files = modules[plugin.module]
    if isinstance(files, UnusableModule):
        return LoadedPlugin(plugin, "broken", str(files), entry)
    if not trusted:
        return LoadedPlugin(plugin, "untrusted", "Nobody has trusted it as it is now; see `parley trust`", entry, files)
    problem = source_problem(files, entry, FUNCTIONS[plugin.type])
    return LoadedPlugin(plugin, "ready" if problem is None else "broken", problem, entry, files)
