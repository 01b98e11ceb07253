"""A whole hub life in this very process: as real as in one of its own, without an interpreter to load."""

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import structlog
from structlog.testing import LogCapture

from parley.core.exits import Exit
from parley.core.settings import HubSettings, Settings, TroubleSettings
from parley.hub.hub import Hub
from parley.hub.lifecycle import HubOptions, run_hub
from parley.wire.server_file import ServerFile
from parley.workspace import discovery

NO_TROUBLE = TroubleSettings(disk_free_bytes_min=0)


def stop_at_once(_: ServerFile) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def hub_of(root: Path) -> Hub:
    """The hub that runs here for this workspace."""
    (found,) = [each for each in gc.get_objects() if type(each) is Hub and each.workspace.root == root.resolve()]
    return found


def run_here(
    root: Path,
    on_ready: Callable[[ServerFile], None] = stop_at_once,
    *,
    trouble: TroubleSettings = NO_TROUBLE,
    unsafe_network: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    drain_seconds: float = 1.0,
) -> tuple[Exit, LogCapture]:
    """Serves until something stops the hub; how it ended, and what it logged. Raises what prevents the start."""
    log = LogCapture()
    logger = structlog.wrap_logger(None, processors=[log], wrapper_class=structlog.make_filtering_bound_logger(0))
    settings = Settings(hub=HubSettings(host=host, port=port, drain_seconds=drain_seconds), trouble=trouble)
    root.mkdir(parents=True, exist_ok=True)
    options = HubOptions(unsafe_network=unsafe_network, on_ready=on_ready)
    return run_hub(discovery.create(root), settings, logger, options), log
