"""Starting the hub of a workspace, in this process or in one of its own."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from parley.app.detached import detach
from parley.core.errors import ConfigInvalid
from parley.core.flags import Given, arguments, laid_over, setting_flags
from parley.core.settings import Settings, setting_specs
from parley.wire.server_file import ServerFile
from parley.workspace.config import load_settings
from parley.workspace.discovery import foreign_config_notice
from parley.workspace.layout import LOG_NAME, Workspace

FLAGS: Final = setting_flags(setting_specs())


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What ``parley up`` was told; what it was not told stands in ``parley.toml``."""

    given: Given = field(default_factory=dict[str, Any])
    config: Path | None = None
    unsafe_network: bool = False

    def arguments(self) -> list[str]:
        """The same as flags, for the process that will serve."""
        config = [] if self.config is None else ["--config", str(self.config.absolute())]
        return [*arguments(FLAGS, self.given), *config, *["--unsafe-network"] * self.unsafe_network]

    def settings(self, workspace: Workspace) -> Settings:
        """``parley.toml`` with the flags laid over it. Raises ``ConfigInvalid``."""
        if self.config is not None and not self.config.exists():  # only parley.toml itself may be missing
            raise ConfigInvalid(f"{self.config} does not exist", path=str(self.config))
        return laid_over(load_settings(workspace.config if self.config is None else self.config), self.given)


UNLIMITED: Final = UpOptions({"rate_limits.enabled": False})
"""A hub that serves every request, for one user's own load."""


def announcement(workspace: Workspace, server: ServerFile) -> dict[str, Any]:
    """What ``parley up`` prints when the hub serves; never the token."""
    return {
        "status": "running",
        "host": server.host,
        "port": server.port,
        "workspace_root": str(workspace.root),
        "instance_id": server.instance_id,
        "pid": server.pid,
        "url": server.base_url,
    }


def serve(
    workspace: Workspace,
    options: UpOptions,
    *,
    on_ready: Callable[[dict[str, Any]], None],
    log_to_file: bool = False,
) -> int:
    """Serves in this process until it is told to stop, and returns its exit code. Raises what prevents the start."""
    from parley.app.mcp import ToolsGuest
    from parley.hub.lifecycle import HubOptions, run_hub
    from parley.serve.logs import configure

    settings = options.settings(workspace)
    destination = workspace.logs / LOG_NAME if log_to_file else sys.stderr.buffer
    with configure(settings.log.level, destination, settings.log.rotate_bytes, settings.log.keep) as log:
        notice = foreign_config_notice(workspace)
        if notice is not None and log_to_file:  # else whoever started it was told at the terminal
            log.logger.warning("foreign_config", problem=notice)
        how = HubOptions(
            options.unsafe_network,
            lambda server: on_ready(announcement(workspace, server)),
            guests=(ToolsGuest(workspace.root, settings),),
        )
        return run_hub(workspace, settings, log.logger, how)


def start_detached(workspace: Workspace, options: UpOptions) -> dict[str, Any]:
    """Starts a hub in a session of its own; returns its announcement when it answers, or raises why it does not."""
    arguments = ["up", "--json", "--workspace", str(workspace.root), *options.arguments()]
    return detach("hub", arguments, workspace.logs / LOG_NAME)
