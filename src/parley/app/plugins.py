"""The plugins of a workspace: whether each would run here, and how it is in the hub that runs now."""

from collections.abc import Iterator
from typing import Any

import msgspec

from parley.client import Client
from parley.core.clock import SystemClock
from parley.core.errors import ConfigInvalid, ConnectionFailed, HubNotRunning
from parley.hub.derived.loading import PluginSource
from parley.sandbox import missing
from parley.wire.answers import PluginHealth
from parley.workspace.checks import Check
from parley.workspace.config import load_settings
from parley.workspace.layout import Workspace
from parley.workspace.trust import parley_home


def list_plugins(workspace: Workspace) -> dict[str, Any]:
    """What ``parley plugin list --json`` prints. Raises ``ConfigInvalid`` if the settings cannot be read."""
    settings = load_settings(workspace.config)
    source = PluginSource(workspace, settings, parley_home())
    health = _health(workspace)
    plugins = [
        {
            "name": plugin.name,
            "type": plugin.settings.type,
            "source": plugin.source,
            "state": plugin.state,
            "problem": plugin.problem,
            "required": plugin.settings.required,
            "network": plugin.settings.network,
            "deadline_seconds": plugin.settings.deadline_seconds or settings.plugin_defaults.deadline_seconds,
            "hub": None if health is None else _row(health.get(plugin.name)),
        }
        for plugin in source.plugins
    ]
    return {"hub_running": health is not None, "sandbox_lacks": list(missing()), "plugins": plugins}


def check_plugins(workspace: Workspace) -> Iterator[Check]:
    """Whether the workspace's plugins can run, and whether this machine has a sandbox for them."""
    try:
        settings = load_settings(workspace.config)
    except ConfigInvalid:
        return  # the check of the settings has told it
    source = PluginSource(workspace, settings, parley_home())
    plugins = source.plugins
    broken = [
        f"{plugin.name}: {problem}"
        for plugin in plugins
        if plugin.state in ("ready", "broken") and (problem := source.why_not_run(plugin, SystemClock())) is not None
    ]
    untrusted = [plugin.name for plugin in plugins if plugin.state == "untrusted"]
    lacking = missing()
    if lacking:
        wanted = any(plugin.state != "disabled" for plugin in plugins)
        fix = "See docs/plugins.md for what the sandbox needs."
        yield Check("sandbox", "error" if wanted else "warn", f"It cannot be built here: {'; '.join(lacking)}", fix)
    else:
        yield Check("sandbox", "ok", "Plugins can be locked in")
    if broken:
        yield Check("plugins", "error", "; ".join(broken), "Correct them, or set `enabled = false` in parley.toml.")
    if untrusted:
        yield Check("plugins", "warn", f"Not trusted, so not run: {', '.join(untrusted)}", "Run `parley trust`.")
    if not broken and not untrusted:
        yield Check("plugins", "ok", f"{len(plugins)} configured" if plugins else "None configured")


def _health(workspace: Workspace) -> dict[str, PluginHealth] | None:
    """How the running hub's plugins are; None when none runs."""
    if not workspace.db.is_file():
        return None
    try:
        with Client(workspace.root) as client:
            return {each.name: each for each in client.list_plugins().plugins}
    except (HubNotRunning, ConnectionFailed):
        return None


def _row(health: PluginHealth | None) -> dict[str, Any] | None:
    """None for a plugin that was added since the hub started."""
    return None if health is None else msgspec.to_builtins(health)
