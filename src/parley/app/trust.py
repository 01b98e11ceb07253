"""What a user is asked to trust: the code that a workspace brings, shown as it would run, before any of it does."""

from dataclasses import dataclass
from typing import Any

from parley.core.clock import Clock, iso
from parley.core.settings import PluginSettings, Settings
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.plugins import Measured, load_plugins, measure, needs_trust
from parley.workspace.trust import Trusted, TrustStore, changes, parley_home


@dataclass(frozen=True, slots=True)
class Review:
    """The workspace's own plugins as they are now, and what is known of them."""

    workspace: Workspace
    measured: Measured
    plugins: list[dict[str, Any]]
    needed: bool
    """Whether any of it would run."""
    before: Trusted | None
    """What was trusted here the last time."""

    @property
    def trusted(self) -> bool:
        """Whether the user trusts it exactly as it is."""
        return self.before is not None and self.before.digest == self.measured.digest

    @property
    def changed(self) -> list[str]:
        """Which files are not as they were when they were trusted, in words."""
        if self.before is None or self.trusted:
            return []
        return changes(self.before.files, self.measured.files) or ["the settings that were read are not those trusted"]

    def report(self) -> dict[str, Any]:
        """What ``parley trust --json`` prints."""
        return {
            "workspace_root": str(self.workspace.root),
            "needed": self.needed,
            "trusted": self.trusted,
            "trusted_at": self.before.trusted_at if self.trusted and self.before is not None else None,
            "changed": self.changed,
            "digest": self.measured.digest,
            "plugins": self.plugins,
        }


def user_store() -> TrustStore:
    """The trust of the user who asks."""
    return TrustStore(parley_home())


def review(workspace: Workspace) -> Review:
    """Looks at the workspace. Raises ``ConfigInvalid`` if its settings or the user's trust cannot be read."""
    settings = load_settings(workspace.config)
    measured = measure(workspace, settings)
    before = user_store().entries().get(str(workspace.root))
    # As if it were trusted: what is wrong with the source is worth knowing before one says yes. It is only parsed.
    problems = {plugin.name: plugin.problem for plugin in load_plugins(workspace, settings, lambda _: True)}
    plugins = [
        _shown(plugin, settings, measured, problems[plugin.name])
        for plugin in settings.plugins
        if plugin.module is not None
    ]
    return Review(workspace, measured, plugins, needs_trust(settings), before)


def trust(seen: Review, clock: Clock) -> None:
    """Trusts what was looked at: not what has come in its place since."""
    user_store().trust(seen.workspace.root, seen.measured, iso(clock.now_ms()))


def revoke(workspace: Workspace) -> bool:
    """Takes the trust away; returns whether there was any."""
    return user_store().revoke(workspace.root)


def trusted_workspaces() -> list[dict[str, Any]]:
    """Every workspace that the user trusts."""
    return [
        {"workspace_root": root, "trusted_at": entry.trusted_at, "digest": entry.digest}
        for root, entry in user_store().entries().items()
    ]


def _shown(plugin: PluginSettings, settings: Settings, measured: Measured, problem: str | None) -> dict[str, Any]:
    module, defaults = plugin.source, settings.plugin_defaults
    inside = f"{module.rstrip('/')}/"
    return {
        "name": plugin.name,
        "type": plugin.type,
        "enabled": plugin.enabled,
        "module": module,
        "files": {path: digest for path, digest in measured.files.items() if path == module or path.startswith(inside)},
        "network": plugin.network,
        "deadline_seconds": plugin.deadline_seconds or defaults.deadline_seconds,
        "memory_bytes": plugin.memory_bytes or defaults.memory_bytes,
        "problem": problem,
    }
