"""Which plugin runs on the messages of which hub, as the workspaces say it and as their user trusts it.

A plugin belongs to a workspace, and the same name may stand for different code in two of them. What was read here is
what every task runs: it travels with the job, so a worker needs nothing of the workspace. The digest stands for
everything that decides what a plugin finds; a change of it makes all messages due again, and limits are no part of it.
"""

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast

from parley import __version__
from parley.core.canonical import canonical_json
from parley.core.clock import Clock
from parley.core.errors import NotFound, PluginFailed, PluginUnavailable
from parley.core.settings import BUILTIN_PLUGINS, PluginDefaultSettings, PluginSettings, Settings
from parley.pipeline.hubs import HubRef
from parley.plugin.session import PluginSession
from parley.sandbox import missing
from parley.workspace import discovery
from parley.workspace.config import load_settings
from parley.workspace.layout import STATE_NAME, Workspace
from parley.workspace.plugins import LoadedPlugin, load_plugins
from parley.workspace.trust import TrustStore, parley_home

_NOWHERE: Final = Workspace(Path("/nonexistent"), Path("/nonexistent") / STATE_NAME)
"""Of a hub that is known by its address alone: it has no files here."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A plugin that is ready to run, with the limits of its workspace. It can be handed to a task."""

    plugin: LoadedPlugin
    defaults: PluginDefaultSettings
    hidden: tuple[Path, ...]
    attachment_bytes_max: int
    digest: str

    def session(self, clock: Clock) -> PluginSession:
        """A conversation with one locked-in process of it."""
        return PluginSession(
            self.plugin,
            self.defaults,
            clock,
            hidden=self.hidden,
            attachment_bytes_max=self.attachment_bytes_max,
        )


def choose(hubs: Sequence[HubRef], name: str, clock: Clock, home: Path | None = None) -> Mapping[str, Chosen]:
    """The plugin of that name in each workspace that has it, by the id of its hub.

    A plugin that comes with Parley is in every workspace, with its usual settings where ``parley.toml`` does not name
    it. Each one is started once, here, so that what keeps it from running is told before any work is done. Raises
    ``NotFound`` if no workspace has it, ``PluginUnavailable`` if one that has it cannot run it.
    """
    trust = TrustStore(home or parley_home())
    chosen = {hub.db_id: found for hub in hubs if (found := _in_workspace(hub, name, trust)) is not None}
    if not chosen:
        places = ", ".join(hub.source for hub in hubs)
        raise NotFound(f"No plugin {name} in {places}", plugin_name=name)
    tried: set[str] = set()
    for hub in hubs:
        each = chosen.get(hub.db_id)
        if each is not None and each.digest not in tried:
            _try_out(hub, each, clock)
            tried.add(each.digest)
    return chosen


def plugin_digest(plugin: LoadedPlugin) -> str:
    """The SHA-256 of what decides its findings: its code, which function is called, and its config."""
    files = {path: hashlib.sha256(data).hexdigest() for path, data in plugin.files.items()}
    if not files:  # one of ours; what it is made of changes with the program
        spec = importlib.util.find_spec(plugin.entry)
        assert spec is not None
        assert spec.origin is not None
        files = {plugin.entry: hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest(), "parley": __version__}
    settings = plugin.settings
    said = {"type": settings.type, "entry": plugin.entry, "files": files, "config": dict(settings.config)}
    return hashlib.sha256(canonical_json(said | {"network": settings.network})).hexdigest()


def _in_workspace(hub: HubRef, name: str, trust: TrustStore) -> Chosen | None:
    workspace, settings = _NOWHERE, Settings()
    if hub.database is not None:
        workspace = discovery.at(Path(hub.source))
        settings = load_settings(workspace.config)
    configured = [plugin for plugin in settings.plugins if plugin.name == name]
    if not configured and name in BUILTIN_PLUGINS:
        # The workspace's own code is measured with all its plugins; one of ours needs nobody's trust.
        kind = cast("Literal['linkifier', 'extractor']", BUILTIN_PLUGINS[name].type)
        settings = replace(settings, plugins=(PluginSettings(name, kind),))
    elif not configured:
        return None
    loaded = load_plugins(workspace, settings, lambda digest: trust.trusts(workspace.root, digest))
    (plugin,) = [each for each in loaded if each.name == name]
    if plugin.state == "disabled":
        raise _unavailable(hub, name, "It is disabled in parley.toml")
    if plugin.state != "ready":
        raise _unavailable(hub, name, plugin.problem or plugin.state)
    lacking = missing(network=plugin.settings.network)
    if lacking:
        raise _unavailable(hub, name, f"The sandbox cannot lock it in here: {'; '.join(lacking)}")
    return Chosen(
        plugin,
        settings.plugin_defaults,
        (workspace.state,),
        settings.limits.attachment_bytes_max,
        plugin_digest(plugin),
    )


def _try_out(hub: HubRef, chosen: Chosen, clock: Clock) -> None:
    try:
        with chosen.session(clock):
            pass
    except PluginFailed as error:
        raise _unavailable(hub, chosen.plugin.name, error.message) from error


def _unavailable(hub: HubRef, name: str, problem: str) -> PluginUnavailable:
    return PluginUnavailable(f"Plugin {name} of {hub.source} cannot run: {problem}", plugin_name=name)
