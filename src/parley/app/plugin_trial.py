"""One run of a plugin on one message, in the sandbox and with the limits that a hub would use.

Nothing is stored. Nobody has to have trusted the plugin: who calls this asks for it to run, once, locked in.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from parley.core import untrusted_json
from parley.core.clock import Clock, iso
from parley.core.errors import InvalidInput, NotFound, ParleyError, PluginFailed
from parley.core.settings import BUILTIN_PLUGINS, PluginDefaultSettings, PluginSettings, Settings
from parley.plugin.contract import Message
from parley.plugin.session import Done, Outcome, PluginSession, plugin_message
from parley.workspace import queries
from parley.workspace.config import load_settings
from parley.workspace.layout import STATE_NAME, Workspace
from parley.workspace.plugins import FUNCTIONS, LoadedPlugin, load_plugins
from parley.workspace.reading import open_reading

_HINTS: Final = {
    "error": "Correct the plugin, then test it again.",
    "invalid": "docs/plugins.md tells what a plugin may return.",
    "timeout": "Make it faster, or raise deadline_seconds of the plugin in parley.toml.",
    "output": "Let it write and return less, or raise plugin_defaults.output_bytes in parley.toml.",
    "crash": "Look for what ends the process; what it printed may tell.",
    "unavailable": "`parley doctor` says what the sandbox lacks on this machine.",
    "broken": "Correct the module or its path, then test it again.",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A plugin that is to be tried, and where it must not look."""

    plugin: LoadedPlugin
    defaults: PluginDefaultSettings
    hidden: tuple[Path, ...]


def find_trial(workspace: Workspace | None, name: str, config: str | None) -> Trial:
    """The plugin of that name in the workspace's settings, the built-in one, or the module at that path.

    Raises ``NotFound``, or ``InvalidInput`` for a ``config`` that has no place or is no JSON object.
    """
    settings = Settings() if workspace is None else load_settings(workspace.config)
    if workspace is not None:
        for plugin in settings.plugins:
            if plugin.name == name or (plugin.module and _same(workspace.root / plugin.module, Path(name))):
                if config is not None:
                    raise InvalidInput(f"--config has no place here: {name} has one in parley.toml", field="config")
                return _trial(workspace, settings, replace(plugin, enabled=True))
    values = {} if config is None else parse_config(config)
    here = Path(name).absolute().parent.resolve()
    place = Workspace(here, here / STATE_NAME)
    if name in BUILTIN_PLUGINS:
        return _trial(place, settings, _plugin(name, BUILTIN_PLUGINS[name].type, None, values))
    if not Path(name).exists():
        error = NotFound(f"No plugin {name}", plugin=name)
        error.hint = "Give a name that `parley plugin list` shows, or the path of a module."
        raise error
    trials = [_trial(place, settings, _plugin(Path(name).stem, kind, Path(name).name, values)) for kind in FUNCTIONS]
    return min(trials, key=_unlikeliness)


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _plugin(name: str, kind: str, module: str | None, config: dict[str, Any]) -> PluginSettings:
    return PluginSettings(name, cast("Literal['linkifier', 'extractor']", kind), module=module, config=config)


def _unlikeliness(trial: Trial) -> int:
    """Which type a module is of: the one whose function works, else the one whose function is there."""
    problem = trial.plugin.problem
    return 0 if problem is None else 2 if "has no function" in problem else 1


def stored_message(workspace: Workspace, message_id: str) -> Message:
    """A message of the workspace as a plugin sees it. Raises ``NotFound``."""
    with open_reading(workspace) as reading:
        found = queries.get_message(reading.connection, message_id)
    if found is None or found.deleted_at is not None:
        raise NotFound(f"No message {message_id}", message_id=message_id)
    return plugin_message(found)


def sample_message(text: str, clock: Clock) -> Message:
    """A message that nobody posted."""
    return Message("msg_sample", "topic_sample", "ch_sample", "sample", text, 1, iso(clock.now_ms()))


def run(trial: Trial, message: Message, clock: Clock) -> dict[str, Any]:
    """What ``parley plugin test --json`` prints. Raises ``PluginFailed``, with what the plugin printed."""
    plugin = trial.plugin
    if plugin.state != "ready":
        raise _failed(plugin, f"Plugin {plugin.name} cannot run: {plugin.problem}", "broken", "")
    session = PluginSession(plugin, trial.defaults, clock, hidden=trial.hidden)
    before = clock.monotonic()
    try:
        session.start()
        started = clock.monotonic()
        (outcome,) = session.run_many([message])
    except PluginFailed as error:
        raise _failed(plugin, error.message, str(error.details["reason"]), session.printed) from error
    finally:
        session.close()
    return {
        "plugin": plugin.name,
        "type": plugin.settings.type,
        "start_seconds": round(started - before, 3),
        **_report(plugin, outcome, session.printed),
        "printed": session.printed,
    }


def _trial(workspace: Workspace, settings: Settings, plugin: PluginSettings) -> Trial:
    (loaded,) = load_plugins(workspace, replace(settings, plugins=(plugin,)), lambda _: True)
    return Trial(loaded, settings.plugin_defaults, (workspace.state,))


def _report(plugin: LoadedPlugin, outcome: Outcome, printed: str) -> dict[str, Any]:
    if not isinstance(outcome, Done):
        raise _failed(plugin, f"Plugin {plugin.name} failed: {outcome.text}", outcome.reason, printed)
    content = outcome.message.content_raw
    enrichments = [
        {"text": content[each.span.start : each.span.end], **msgspec.to_builtins(each)}
        for each in outcome.findings.enrichments
    ]
    attachments = [
        {"kind": each.kind, "key": each.key, "value_json": each.value_json, "dedupe_key": each.dedupe_key}
        for each in outcome.findings.attachments
    ]
    return {"seconds": round(outcome.seconds, 3), "enrichments": enrichments, "attachments": attachments}


def _failed(plugin: LoadedPlugin, text: str, reason: str, printed: str) -> ParleyError:
    error = PluginFailed(text, plugin=plugin.name, reason=reason, printed=printed)
    error.hint = _HINTS.get(reason, error.hint)
    return error


def parse_config(text: str) -> dict[str, Any]:
    """A config that was given as JSON. Raises ``InvalidInput``."""
    try:
        return untrusted_json.decode(text, dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"--config must be a JSON object: {error}", field="config") from error
