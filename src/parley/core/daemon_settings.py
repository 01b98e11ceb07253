"""What a user may tune in ``daemon.toml``: one class per table, one field per key, as for ``parley.toml``."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, Literal

from parley.core.settings import MIB, SettingSpec, setting_key, table_specs


@dataclass(frozen=True, slots=True)
class DaemonTable:
    """``[daemon]``"""

    log_level: Literal["debug", "info", "warning", "error"] = setting_key(
        "info", "how much is logged", choices=("debug", "info", "warning", "error")
    )
    token_grace_seconds: float = setting_key(
        60.0, "how long the old token stays valid after `parley daemon rotate-token`", low=0, high=86_400
    )


@dataclass(frozen=True, slots=True)
class IpcTable:
    """``[ipc]``"""

    tcp_enabled: bool = setting_key(
        True,
        "listen on loopback TCP, too; a container has the socket alone",
        flag="--no-tcp",
        flag_help="Listen on the socket alone.",
    )
    tcp_in_container: bool = setting_key(
        False, "listen on loopback TCP in a container, too, where neighbours may share it"
    )
    http_port: int = setting_key(0, "port on loopback; 0 takes a free one", low=0, high=65_535, flag="--port")
    public_health_check: bool = setting_key(False, "`GET /v1/health` needs no token")
    body_bytes_max: int = setting_key(MIB, "bytes of a request body", low=1024, high=16 * MIB)
    requests_max: int = setting_key(64, "requests answered at once; one more gets 429", low=1, high=10_000)
    streams_max: int = setting_key(32, "streams of events open at once; one more gets 429", low=1, high=10_000)
    stream_queue_max: int = setting_key(
        1_000, "events that a slow stream may have waiting before it is told that it lags", low=1, high=100_000
    )
    rate_per_second: int = setting_key(1_000, "requests per second of all callers together", low=1)


@dataclass(frozen=True, slots=True)
class OutboxTable:
    """``[outbox]``"""

    rows_max: int = setting_key(100_000, "messages that may wait to be sent; one more gets 507", low=1)
    bytes_max: int = setting_key(
        5 * 1024 * MIB, "bytes of messages that the outbox holds; at 95 % new messages get 507", low=MIB
    )
    max_age_hours_override: int = setting_key(
        0, "hours until a message that could not be sent dies; 0 takes what the broker's window allows", low=0
    )
    prune_days: float = setting_key(30.0, "what was sent is forgotten after this long; its id is not", low=0.01)


@dataclass(frozen=True, slots=True)
class InboxTable:
    """``[inbox]``"""

    retention_days: float = setting_key(30.0, "how long what arrived is kept", low=0.01, high=3650)
    bytes_max: int = setting_key(
        5 * 1024 * MIB,
        "bytes of messages that the inbox holds; at 95 % the oldest that were seen are forgotten,"
        " and at 100 % new ones wait at their broker",
        low=MIB,
    )


@dataclass(frozen=True, slots=True)
class ReconnectTable:
    """``[reconnect]``"""

    initial_backoff_ms: int = setting_key(500, "wait before the second try", low=10, high=60_000)
    max_backoff_ms: int = setting_key(30_000, "longest wait between tries", low=10, high=3_600_000)
    jitter_pct: int = setting_key(25, "how much a wait may differ, so that not all come at once", low=0, high=100)


@dataclass(frozen=True, slots=True)
class CloneTable:
    """``[clone]``"""

    policy: Literal["refuse", "warn", "allow"] = setting_key(
        "refuse", "what to do when the folder was made on another machine", choices=("refuse", "warn", "allow")
    )
    host_id: str = setting_key("", "takes the place of the machine's own id, where that is not stable")


@dataclass(frozen=True, slots=True)
class TroubleTable:
    """``[trouble]``"""

    disk_free_bytes_min: int = setting_key(
        1024 * MIB, "below this free space the daemon says that it is degraded", low=0
    )


@dataclass(frozen=True, slots=True)
class CryptoTable:
    """``[crypto]``"""

    key_grace_period_days: int = setting_key(7, "how long a replaced key still opens what arrives", low=1, high=30)


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """All of ``daemon.toml``."""

    daemon: DaemonTable = DaemonTable()
    ipc: IpcTable = IpcTable()
    outbox: OutboxTable = OutboxTable()
    inbox: InboxTable = InboxTable()
    reconnect: ReconnectTable = ReconnectTable()
    clone: CloneTable = CloneTable()
    crypto: CryptoTable = CryptoTable()
    trouble: TroubleTable = TroubleTable()


AT_START: Final = frozenset(
    {"daemon.log_level", "ipc.tcp_enabled", "ipc.tcp_in_container", "ipc.http_port", "clone.policy", "clone.host_id"}
)
"""Keys that a start reads and a running daemon no longer can heed."""


def daemon_setting_specs() -> Iterator[SettingSpec]:
    """Every key of ``daemon.toml``, in the order of the docs."""
    for table in fields(DaemonSettings):
        yield from table_specs(table.name, table.type)
