"""Which plugins a hub runs: those in its settings that are trusted, whole, and can be locked in on this machine."""

from dataclasses import replace
from pathlib import Path

from parley.core.clock import Clock
from parley.core.errors import PluginFailed, PluginUnavailable
from parley.core.settings import Settings
from parley.plugin.session import PluginSession
from parley.sandbox import missing
from parley.workspace.layout import Workspace
from parley.workspace.plugins import LoadedPlugin, load_plugins
from parley.workspace.trust import TrustStore


class PluginSource:
    """The plugins of a workspace's settings, as often as somebody wants to look at them."""

    def __init__(self, workspace: Workspace, settings: Settings, home: Path) -> None:
        """``home`` is where the user's trust is kept."""
        self._workspace = workspace
        self._settings = settings
        self._trust = TrustStore(home)
        self._seen = self._signature()
        self.plugins = self._load()
        """Every plugin, with what keeps it from running."""

    def look_again(self) -> bool:
        """Loads the plugins again if the user has trusted or revoked anything since; whether that was so."""
        signature = self._signature()
        if signature == self._seen:
            return False
        self._seen = signature
        self.plugins = self._load()
        return True

    def refuse_without_required(self, clock: Clock) -> None:
        """Raises ``PluginUnavailable`` if a plugin that the workspace requires does not run."""
        for plugin in self.plugins:
            problem = self.why_not_run(plugin, clock) if plugin.settings.required else None
            if problem is not None:
                raise PluginUnavailable(
                    f"The required plugin {plugin.name} cannot run: {problem}", plugin_name=plugin.name
                )

    def why_not_run(self, plugin: LoadedPlugin, clock: Clock) -> str | None:
        """What keeps an enabled plugin from running; None if nothing does.

        One that looks right is started once, in the sandbox as for a message: only so it is known whether it can be
        imported. That takes as long as its module does, at most its deadline.
        """
        if plugin.state != "ready":
            return plugin.problem
        defaults = self._settings.plugin_defaults
        try:
            with PluginSession(plugin, defaults, clock, hidden=(self._workspace.state,)):
                return None
        except PluginFailed as failure:
            return failure.message.removeprefix(f"Plugin {plugin.name} ")

    def _load(self) -> tuple[LoadedPlugin, ...]:
        root = self._workspace.root
        plugins = load_plugins(self._workspace, self._settings, lambda digest: self._trust.trusts(root, digest))
        return tuple(_locked_in(plugin) for plugin in plugins)

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            about = self._trust.path.stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size


def _locked_in(plugin: LoadedPlugin) -> LoadedPlugin:
    """The plugin, broken if this machine has no sandbox for it.

    Of one that is not trusted yet it is found out as well: finding out takes a moment, which a start has and a hub that
    serves has not.
    """
    lacking = missing(network=plugin.settings.network) if plugin.state in ("ready", "untrusted") else ()
    if not lacking:
        return plugin
    return replace(plugin, state="broken", problem=f"The sandbox cannot lock it in here: {'; '.join(lacking)}")
