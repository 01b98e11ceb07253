"""Serving meshes: a broker in this process or in one of its own, and what is done to what it holds."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from parley import __version__
from parley.app.detached import detach
from parley.app.garbage import look_seldom
from parley.broker.options import broker_options, store_at
from parley.core.broker_settings import BrokerSettings, broker_setting_specs
from parley.core.flags import Given, arguments, laid_over, setting_flags
from parley.core.setting_files import load_settings
from parley.workspace.trust import parley_home

FOLDER: Final = "broker"
CONFIG: Final = "broker.toml"
LOG_NAME: Final = "broker.log"
LOG_ROTATE_BYTES: Final = 64 * 1024 * 1024
LOG_KEEP: Final = 5
FLAGS: Final = setting_flags(broker_setting_specs())


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What ``parley broker up`` was told; what it was not told stands in ``broker.toml``."""

    given: Given = field(default_factory=dict[str, Any])
    folder: Path | None = None
    log_file: Path | None = None

    def arguments(self) -> list[str]:
        """The same as flags, for a process that will serve."""
        places = {"--folder": self.folder, "--log-file": self.log_file}
        named = [part for flag, path in places.items() if path is not None for part in (flag, str(path.absolute()))]
        return [*named, *arguments(FLAGS, self.given)]

    def settings(self) -> BrokerSettings:
        """``broker.toml`` with the flags laid over it. Raises ``ConfigInvalid``."""
        path = broker_folder(self.folder) / CONFIG
        return laid_over(load_settings(path, BrokerSettings(), broker_setting_specs()), self.given)


def broker_folder(folder: Path | None) -> Path:
    """Where a broker keeps what it needs: the named folder, else one in the user's own."""
    return (folder or parley_home() / FOLDER).absolute()


def broker_store(store: str | None, folder: Path) -> str:
    """The store that is named, else that of the settings, else the file in the folder."""
    given = {} if store is None else {"store.address": store}
    return store_at(UpOptions(given, folder).settings().store.address, folder)


def serve(options: UpOptions, *, on_ready: Callable[[dict[str, Any]], None], log_file: Path | None = None) -> int:
    """Serves and returns the exit code. Raises what prevents the start."""
    from parley.broker.lifecycle import Ready, run_broker
    from parley.serve.logs import configure

    settings = options.settings()
    how = broker_options(settings, broker_folder(options.folder), __version__)

    def ready(broker: Ready) -> None:
        look_seldom()
        on_ready(
            {
                "status": "running",
                "pid": os.getpid(),
                "host": broker.host,
                "port": broker.port,
                "url": broker.url,
                "broker_id": broker.broker_id,
                "instance_id": broker.instance_id,
                "creation_token_file": str(broker.creation_token_file),
                "owner_invite": broker.owner_invite,
            }
        )

    destination = options.log_file or log_file or sys.stderr.buffer
    with configure(settings.server.log_level, destination, LOG_ROTATE_BYTES, LOG_KEEP) as log:
        return run_broker(how, log.logger, ready)


def start_detached(options: UpOptions) -> dict[str, Any]:
    """Starts a broker in a session of its own; its announcement when it serves, or raises why it does not."""
    folder = broker_folder(options.folder)
    options.settings()  # a mistake is told here, before there is a process
    arguments = ["broker", "up", "--json", *replace(options, folder=folder).arguments()]
    return detach("broker", arguments, log_path(folder))


def log_path(folder: Path) -> Path:
    """Where a broker that was started apart writes its log."""
    return folder / LOG_NAME


def back_up(store: str | None, folder: Path | None, target: Path) -> dict[str, Any]:
    """Copies what a broker holds to a file, also while it serves."""
    from parley.broker.backup import back_up
    from parley.core.clock import SystemClock

    back_up(broker_store(store, broker_folder(folder)), target.absolute(), SystemClock())
    return {"backup": str(target.absolute()), "bytes": target.stat().st_size}


def restore(store: str | None, folder: Path | None, source: Path, *, force: bool) -> dict[str, Any]:
    """Puts a backup in the place of what a broker holds."""
    from parley.broker.backup import restore
    from parley.core.clock import SystemClock

    epoch = restore(source.absolute(), broker_store(store, broker_folder(folder)), SystemClock(), force=force)
    return {"restored": str(source.absolute()), "epoch": epoch}


def check(store: str | None, folder: Path | None) -> dict[str, Any]:
    """What is wrong with what a broker holds."""
    from parley.broker.backup import check
    from parley.core.clock import SystemClock

    checked = check(broker_store(store, broker_folder(folder)), SystemClock())
    return {
        "sound": checked.sound,
        "problems": list(checked.problems),
        "orphans": [
            {"check": each.check, "meaning": each.meaning, "times": each.times, "examples": list(each.examples)}
            for each in checked.orphans
        ],
        "broken_audits": checked.broken_audits,
        "broken_rosters": checked.broken_rosters,
    }
