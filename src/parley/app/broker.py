"""Serving meshes: a broker in this process or in one of its own, and what is done to what it holds."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from parley import __version__
from parley.app.detached import detach
from parley.app.garbage import look_seldom
from parley.core.broker_settings import BrokerSettings, broker_setting_specs
from parley.core.errors import ConfigInvalid
from parley.core.setting_files import load_settings
from parley.workspace.trust import parley_home

FOLDER: Final = "broker"
FILE: Final = "broker.db"
CONFIG: Final = "broker.toml"
LOG_NAME: Final = "broker.log"
LOG_ROTATE_BYTES: Final = 64 * 1024 * 1024
LOG_KEEP: Final = 5
_LOG_MODE: Final = 0o600
_PLACES: Final = {
    "store": ("store", "address"),
    "synchronous": ("store", "synchronous"),
    "message_days": ("retention", "message_days"),
    "dedupe_days": ("retention", "dedupe_days"),
    "members_max": ("mesh", "members_max"),
    "mesh_bytes_max": ("mesh", "bytes_max"),
}
"""Where an option of the command stands in the file; the others are in ``[server]`` under their own names."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What ``parley broker up`` was told; None and False leave it to ``broker.toml``."""

    store: str | None = None
    folder: Path | None = None
    host: str | None = None
    port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    trusted_proxy: bool = False
    insecure: bool = False
    open_creation: bool = False
    public_url: str | None = None
    synchronous: Literal["full", "normal"] | None = None
    message_days: int | None = None
    dedupe_days: int | None = None
    members_max: int | None = None
    mesh_bytes_max: int | None = None
    log_file: Path | None = None

    def given(self) -> dict[str, Any]:
        """What was named, with paths that mean the same in every folder."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.store is not None and "://" not in self.store:
            named["store"] = Path(self.store)
        return {
            name: str(value.absolute()) if isinstance(value, Path) else value
            for name, value in named.items()
            if value is not None and value is not False
        }

    def arguments(self) -> list[str]:
        """The same as flags, for a process that will serve."""
        flags: list[str] = []
        for name, value in self.given().items():
            flag = f"--{name.replace('_', '-')}"
            flags += [flag] if value is True else [flag, str(value)]
        return flags

    def settings(self) -> BrokerSettings:
        """``broker.toml`` with the flags laid over it. Raises ``ConfigInvalid``."""
        settings = load_settings(broker_folder(self.folder) / CONFIG, BrokerSettings(), broker_setting_specs())
        for name, value in self.given().items():
            if name not in ("folder", "log_file"):
                table, key = _PLACES.get(name, ("server", name))
                settings = replace(settings, **{table: replace(getattr(settings, table), **{key: value})})
        return settings


def broker_folder(folder: Path | None) -> Path:
    """Where a broker keeps what it needs: the named folder, else one in the user's own."""
    return (folder or parley_home() / FOLDER).absolute()


def broker_store(store: str | None, folder: Path) -> str:
    """The store that is named, else that of the settings, else the file in the folder."""
    return _store_at(UpOptions(store=store, folder=folder).settings().store.address, folder)


def _store_at(address: str, folder: Path) -> str:
    """The address as the broker wants it. Raises ``ConfigInvalid`` for a database that is no store of ours."""
    from parley.broker.lifecycle import POSTGRESQL

    scheme, colon, _ = address.partition("://")
    if colon and not address.startswith(POSTGRESQL):
        raise ConfigInvalid(f"A broker's store is a file or postgresql://…, not {scheme}://…", key="store.address")
    return address if colon else str(folder / (address or FILE))


def serve(options: UpOptions, *, on_ready: Callable[[dict[str, Any]], None], log_file: Path | None = None) -> int:
    """Serves and returns the exit code. Raises what prevents the start."""
    from parley.broker.lifecycle import Ready, run_broker
    from parley.serve.logs import configure

    settings = options.settings()
    how = broker_options(settings, broker_folder(options.folder))

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
    path = log_path(folder)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _LOG_MODE)
    named = options.store
    whole = replace(
        options, folder=folder, store=str(Path(named).absolute()) if named and "://" not in named else named
    )
    return detach("broker", ["broker", "up", "--json", *whole.arguments()], log, path)


def log_path(folder: Path) -> Path:
    """Where a broker that was started apart writes its log."""
    return folder / LOG_NAME


def broker_options(settings: BrokerSettings, folder: Path) -> Any:
    """The settings as the broker wants them. Raises ``ConfigInvalid``."""
    from parley.broker.lifecycle import BrokerOptions
    from parley.broker.policy import DEDUPE_DAYS_MIN, Policy

    server, retention, address = settings.server, settings.retention, settings.store.address
    policy = Policy(
        **_all_of(settings.limits),
        **_all_of(settings.timing),
        **_all_of(settings.retention),
        **_all_of(settings.mesh),
    )
    policy = replace(policy, delivery_days=min(policy.delivery_days, policy.message_days))
    if policy.dedupe_days and policy.dedupe_days < max(DEDUPE_DAYS_MIN, policy.message_days):
        raise ConfigInvalid(
            f"--dedupe-days must be 0, or at least {DEDUPE_DAYS_MIN} and not less than --message-days",
            dedupe_days=retention.dedupe_days,
            message_days=retention.message_days,
        )
    return BrokerOptions(
        folder=folder,
        store=_store_at(address, folder),
        host=server.host,
        port=server.port,
        tls_cert=folder / server.tls_cert if server.tls_cert else None,
        tls_key=folder / server.tls_key if server.tls_key else None,
        trusted_proxy=server.trusted_proxy,
        insecure=server.insecure,
        open_creation=server.open_creation,
        public_url=server.public_url or None,
        synchronous=settings.store.synchronous,
        drain_seconds=server.drain_seconds,
        check_hours=settings.check.every_hours,
        disk_free_bytes_min=settings.trouble.disk_free_bytes_min,
        policy=policy,
        version=__version__,
    )


def _all_of(table: Any) -> dict[str, Any]:
    return {each.name: getattr(table, each.name) for each in fields(table)}


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
    }
