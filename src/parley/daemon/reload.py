"""Taking the files of the folder again while the daemon runs: settings, hooks and memberships.

All of them are read before any is used, so a mistake in one changes nothing. No connection of a mesh that stays is
closed. What only a start can heed is named in the answer instead of being passed over.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.core.daemon_settings import AT_START, DaemonSettings, daemon_setting_specs
from parley.core.errors import ConfigInvalid, InvalidInput
from parley.daemon.config import load_daemon_settings
from parley.daemon.hooks.config import load_hooks
from parley.wire.daemon_answers import Reloaded

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon


class Changes(NamedTuple):
    """The settings to run with from now on, and the names of the keys that differ."""

    settings: DaemonSettings
    changed: list[str]
    needs_restart: list[str]


def changes(running: DaemonSettings, at_start: DaemonSettings, wanted: DaemonSettings) -> Changes:
    """What a file means to a daemon that runs. ``at_start`` is what it said when the daemon started.

    The running settings may differ from that by the flags of the start, which a file that stays the same does not undo.
    """
    settings = running
    changed: list[str] = []
    needs_restart: list[str] = []
    for spec in daemon_setting_specs():
        value = _value(wanted, spec.table, spec.key)
        if spec.name in AT_START:
            if value != _value(at_start, spec.table, spec.key):
                needs_restart.append(spec.name)
        elif value != _value(running, spec.table, spec.key):
            table = replace(getattr(settings, spec.table), **{spec.key: value})
            settings = replace(settings, **{spec.table: table})
            changed.append(spec.name)
    return Changes(settings, changed, needs_restart)


async def reload(daemon: "Daemon") -> Reloaded:
    """Takes the files again; what that changed. Raises ``InvalidInput`` with the mistakes, and then changes nothing."""
    try:
        found = changes(daemon.settings, daemon.at_start, load_daemon_settings(daemon.home.config))
        hooks = load_hooks(daemon.home.hooks)
    except ConfigInvalid as error:
        raise InvalidInput(str(error), **error.details) from error
    daemon.memberships.load()
    daemon.apply(found.settings)
    daemon.hooks.use(hooks)
    daemon.gate.use(hooks)
    attached, detached = await daemon.match_memberships()
    daemon.log.info("reloaded", changed=found.changed, needs_restart=found.needs_restart, hooks=sorted(hooks))
    return Reloaded(attached, detached, found.changed, found.needs_restart, sorted(hooks))


def _value(settings: DaemonSettings, table: str, key: str) -> Any:
    return getattr(getattr(settings, table), key)
