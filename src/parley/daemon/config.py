"""``daemon.toml``, as settings."""

from pathlib import Path
from typing import Any

from parley.core.daemon_settings import DaemonSettings, daemon_setting_specs
from parley.core.setting_files import load_settings, parse_settings


def load_daemon_settings(path: Path) -> DaemonSettings:
    """The settings of this file, and the defaults of what it does not name. Raises ``ConfigInvalid``."""
    return load_settings(path, DaemonSettings(), daemon_setting_specs())


def parse_daemon_settings(document: dict[str, Any]) -> DaemonSettings:
    """The settings of a parsed file. Raises ``ConfigInvalid`` with all mistakes at once."""
    return parse_settings("daemon.toml", document, DaemonSettings(), daemon_setting_specs())
