"""What an operator may tune in ``broker.toml``: one class per table, one field per key, as for ``parley.toml``."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from parley.core.settings import MIB, SettingSpec, setting_key, table_specs


@dataclass(frozen=True, slots=True)
class ServerTable:
    """``[server]``"""

    host: str = setting_key(
        "127.0.0.1", "address to listen on; one that others can reach needs TLS or a proxy", flag="--host"
    )
    port: int = setting_key(4717, "port to listen on; 0 takes a free one", low=0, high=65_535, flag="--port")
    tls_cert: str = setting_key(
        "",
        "a certificate in PEM, beside this file unless the path is whole",
        flag="--tls-cert",
        flag_help="A certificate, in PEM.",
        is_path=True,
    )
    tls_key: str = setting_key("", "its key", flag="--tls-key", flag_help="Its key, in PEM.", is_path=True)
    trusted_proxy: bool = setting_key(False, "a proxy in front of the broker speaks TLS", flag="--trusted-proxy")
    insecure: bool = setting_key(False, "allow an address that others can reach, without TLS", flag="--insecure")
    open_creation: bool = setting_key(
        False, "everybody may make a mesh, without the creation token", flag="--open-creation"
    )
    public_url: str = setting_key("", "how daemons reach the broker; written into invites", flag="--public-url")
    drain_seconds: float = setting_key(10.0, "how long a stop waits for what is under way", low=0, high=600)
    log_level: Literal["debug", "info", "warning", "error"] = setting_key(
        "info", "how much is logged", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True, slots=True)
class StoreTable:
    """``[store]``"""

    address: str = setting_key(
        "",
        "a file, or `postgresql://…`; empty is `broker.db` beside this file",
        flag="--store",
        flag_help="A file, or postgresql://…; else a file in the folder.",
        is_path=True,
    )
    synchronous: Literal["full", "normal"] = setting_key(
        "full",
        "of a file: `full` syncs each commit to disk; `normal` may lose the last commits in a power cut",
        choices=("full", "normal"),
        flag="--synchronous",
    )


@dataclass(frozen=True, slots=True)
class LimitsTable:
    """``[limits]``"""

    inline_bytes_max: int = setting_key(64 * 1024, "bytes of a sealed message", low=1024, high=128 * 1024)
    window: int = setting_key(64, "deliveries, and sends, that a connection may have unanswered", low=1, high=1_000)
    rate_messages: int = setting_key(10_000, "messages that a member may send in a window of time", low=1)
    rate_window_ms: int = setting_key(10_000, "that window", low=1_000, high=3_600_000)
    requests_per_second: int = setting_key(
        50, "requests of a connection; ten times as many may come at once after a pause", low=1
    )
    http_per_address: int = setting_key(
        500, "HTTP requests and new connections in a second from one address", low=1, high=1_000_000
    )
    http_overall: int = setting_key(2_000, "HTTP requests and new connections in a second, all together", low=1)


@dataclass(frozen=True, slots=True)
class TimingTable:
    """``[timing]``"""

    lease_ms: int = setting_key(30_000, "how long a delivery waits to be acknowledged", low=1_000, high=600_000)
    heartbeat_ms: int = setting_key(30_000, "silence after which a daemon is asked whether it is there", low=1_000)
    ready_ms: int = setting_key(10_000, "how long a new connection may take to greet and negotiate", low=1_000)
    poll_ms: int = setting_key(30_000, "how often a connection looks for what nobody told it of", low=1_000)


@dataclass(frozen=True, slots=True)
class RetentionTable:
    """``[retention]``"""

    delivery_days: int = setting_key(
        30, "how long a delivery waits for its recipient; never longer than messages", low=1, high=36_500
    )
    message_days: int = setting_key(60, "how long a message is kept", low=1, high=36_500, flag="--message-days")
    dedupe_days: int = setting_key(
        365,
        "how long its id is; 0 is for ever, else at least 7 and as long as messages",
        low=0,
        high=36_500,
        flag="--dedupe-days",
    )
    ephemeral_hours: float = setting_key(
        1.0, "how long a member whose keys end with its daemon may be away; then it is none any more", low=0.01
    )


@dataclass(frozen=True, slots=True)
class MeshTable:
    """``[mesh]``"""

    members_max: int = setting_key(1_000, "members of a new mesh", low=1, flag="--members-max")
    bytes_max: int = setting_key(1024 * MIB, "stored bytes of a new mesh", low=1024, flag="--mesh-bytes-max")
    connection_policy: Literal["prefer_newest", "prefer_oldest", "allow_concurrent"] = setting_key(
        "prefer_newest",
        "what becomes of a member's second daemon in a new mesh",
        choices=("prefer_newest", "prefer_oldest", "allow_concurrent"),
    )


@dataclass(frozen=True, slots=True)
class CheckTable:
    """``[check]``"""

    every_hours: float = setting_key(
        24.0, "how often a running broker looks for orphans and broken chains; 0 never", low=0, high=8_760
    )


@dataclass(frozen=True, slots=True)
class TroubleTable:
    """``[trouble]``"""

    disk_free_bytes_min: int = setting_key(
        1024 * MIB, "below this free space the broker says that it is degraded", low=0
    )


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """All of ``broker.toml``."""

    server: ServerTable = ServerTable()
    store: StoreTable = StoreTable()
    limits: LimitsTable = LimitsTable()
    timing: TimingTable = TimingTable()
    retention: RetentionTable = RetentionTable()
    mesh: MeshTable = MeshTable()
    check: CheckTable = CheckTable()
    trouble: TroubleTable = TroubleTable()


def broker_setting_specs() -> Iterator[SettingSpec]:
    """Every key of ``broker.toml``, in the order of the docs."""
    for table in fields(BrokerSettings):
        yield from table_specs(table.name, table.type)
