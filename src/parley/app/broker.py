"""Serving meshes: a broker in this process, until it is told to stop."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from parley import __version__
from parley.core.errors import ConfigInvalid
from parley.workspace.trust import parley_home

FOLDER: Final = "broker"
FILE: Final = "broker.db"
LOG_LEVEL: Final = "info"
LOG_ROTATE_BYTES: Final = 64 * 1024 * 1024
LOG_KEEP: Final = 5


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What ``parley broker up`` was told; None leaves it at the default."""

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


def broker_folder(folder: Path | None) -> Path:
    """Where a broker keeps what it needs: the named folder, else one in the user's own."""
    return (folder or parley_home() / FOLDER).absolute()


def broker_store(store: str | None, folder: Path) -> str:
    """The store that is named, else the file in the folder."""
    return store or str(folder / FILE)


def serve(options: UpOptions, *, on_ready: Callable[[dict[str, Any]], None], log_file: Path | None = None) -> int:
    """Serves and returns the exit code. Raises what prevents the start."""
    from parley.broker.lifecycle import Ready, run_broker
    from parley.serve.logs import configure

    how = broker_options(options)

    def ready(broker: Ready) -> None:
        on_ready(
            {
                "status": "running",
                "host": broker.host,
                "port": broker.port,
                "url": broker.url,
                "broker_id": broker.broker_id,
                "instance_id": broker.instance_id,
                "creation_token_file": str(broker.creation_token_file),
                "owner_invite": broker.owner_invite,
            }
        )

    destination = log_file if log_file is not None else sys.stderr.buffer
    with configure(LOG_LEVEL, destination, LOG_ROTATE_BYTES, LOG_KEEP) as log:
        return run_broker(how, log.logger, ready)


def broker_options(options: UpOptions) -> Any:
    """The options as the broker wants them. Raises ``ConfigInvalid``."""
    from parley.broker.lifecycle import BrokerOptions
    from parley.broker.policy import DEDUPE_DAYS_MIN, DEFAULT_POLICY

    named = {
        "message_days": options.message_days,
        "dedupe_days": options.dedupe_days,
        "members_max": options.members_max,
        "bytes_max": options.mesh_bytes_max,
    }
    policy = replace(DEFAULT_POLICY, **{name: value for name, value in named.items() if value is not None})
    policy = replace(policy, delivery_days=min(policy.delivery_days, policy.message_days))
    if policy.dedupe_days and policy.dedupe_days < max(DEDUPE_DAYS_MIN, policy.message_days):
        raise ConfigInvalid(
            f"--dedupe-days must be 0, or at least {DEDUPE_DAYS_MIN} and not less than --message-days",
            dedupe_days=policy.dedupe_days,
            message_days=policy.message_days,
        )
    folder = broker_folder(options.folder)
    given = {name: value for name in ("host", "port", "synchronous") if (value := getattr(options, name)) is not None}
    return BrokerOptions(
        folder=folder,
        store=broker_store(options.store, folder),
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        trusted_proxy=options.trusted_proxy,
        insecure=options.insecure,
        open_creation=options.open_creation,
        public_url=options.public_url,
        policy=policy,
        version=__version__,
        **given,
    )


def back_up(store: str | None, folder: Path | None, target: Path) -> dict[str, Any]:
    """Copies what a broker holds to a file, also while it serves."""
    from parley.broker.keeping import back_up
    from parley.core.clock import SystemClock

    back_up(broker_store(store, broker_folder(folder)), target.absolute(), SystemClock())
    return {"backup": str(target.absolute()), "bytes": target.stat().st_size}


def restore(store: str | None, folder: Path | None, source: Path, *, force: bool) -> dict[str, Any]:
    """Puts a backup in the place of what a broker holds."""
    from parley.broker.keeping import restore
    from parley.core.clock import SystemClock

    epoch = restore(source.absolute(), broker_store(store, broker_folder(folder)), SystemClock(), force=force)
    return {"restored": str(source.absolute()), "epoch": epoch}


def check(store: str | None, folder: Path | None) -> dict[str, Any]:
    """What is wrong with what a broker holds."""
    from parley.broker.keeping import check
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
