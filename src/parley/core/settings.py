"""What a workspace may tune in ``parley.toml``: one class per table, one field per key.

The classes are the registry. Type, default, bounds and meaning of each key stand here once; the loader, ``doctor`` and
the docs read them from the fields' metadata.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from parley.core import limits

MIB = 1024 * 1024


def _key(
    default: Any, meaning: str, *, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True, slots=True)
class HubSettings:
    """``[hub]``"""

    host: str = _key("127.0.0.1", "address to listen on; anything but loopback also needs `--unsafe-network`")
    port: int = _key(0, "port to listen on; 0 takes a free one", low=0, high=65_535)
    open_reads: bool = _key(False, "GET requests need no token, as in Agentlip")
    synchronous: Literal["full", "normal"] = _key(
        "full",
        "`full` syncs each commit to disk; `normal` may lose the last commits in a power cut",
        choices=("full", "normal"),
    )
    drain_seconds: float = _key(10.0, "how long a stop waits for requests in flight", low=0, high=600)
    idle_shutdown_ms: int = _key(0, "stop after this long without a feed or a request; 0 never", low=0)
    writer_queue_max: int = _key(10_000, "writes that may wait before new ones are refused", low=1, high=1_000_000)
    token_grace_seconds: float = _key(
        300.0, "how long the old token stays valid after `parley token rotate`", low=0, high=86_400
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """``[limits]``"""

    message_bytes_max: int = _key(
        limits.CONTENT_BYTES_MAX, "UTF-8 bytes of a message's content", low=1, high=limits.CONTENT_BYTES_MAX
    )
    attachment_bytes_max: int = _key(
        limits.ATTACHMENT_BYTES_MAX, "bytes of an attachment's metadata", low=2, high=limits.ATTACHMENT_BYTES_MAX
    )
    body_bytes_max: int = _key(
        512 * 1024,
        "bytes of a request body; room for the largest content however it is escaped",
        low=1024,
        high=16 * MIB,
    )
    page_max: int = _key(limits.PAGE_LIMIT_MAX, "rows in one answer", low=1, high=10_000)
    move_batch_max: int = _key(500, "messages moved in one transaction", low=1, high=10_000)


@dataclass(frozen=True, slots=True)
class RateLimitSettings:
    """``[rate_limits]``"""

    enabled: bool = _key(True, "whether requests are limited")
    per_connection: int = _key(100, "requests per second of one connection or named agent", low=1)
    overall: int = _key(1_000, "requests per second of all together", low=1)


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """``[websocket]``"""

    connections_max: int = _key(100, "feeds served at once; one more gets 503", low=1, high=100_000)
    message_bytes_max: int = _key(256 * 1024, "bytes of a message from a client", low=128, high=16 * MIB)
    queue_max: int = _key(1_000, "events a slow feed may have waiting before it goes back to replay", low=1)
    replay_batch: int = _key(1_000, "events read at once while replaying", low=1, high=10_000)
    stall_seconds: float = _key(30.0, "a feed that takes nothing for this long is closed with 1008", low=0.1)
    hello_seconds: float = _key(10.0, "how long a new feed may take to say hello", low=0.1)
    ping_seconds: float = _key(20.0, "time between pings; an unanswered one closes the feed", low=0.1)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """``[checkpoint]``"""

    interval_seconds: float = _key(10.0, "time between checkpoints", low=0.1)
    wal_bytes: int = _key(8 * MIB, "a write-ahead log of this size is checkpointed at once", low=4096)
    idle_seconds: float = _key(30.0, "without writes for this long the log is truncated", low=0.1)


@dataclass(frozen=True, slots=True)
class TroubleSettings:
    """``[trouble]``"""

    wal_bytes_max: int = _key(100 * MIB, "above this size of the write-ahead log writes get 503", low=MIB)
    disk_free_bytes_min: int = _key(1024 * MIB, "below this free space writes get 503", low=0)


@dataclass(frozen=True, slots=True)
class IdempotencySettings:
    """``[idempotency]``"""

    retention_days: float = _key(7.0, "how long an idempotency key is remembered", low=0.01, high=3650)


@dataclass(frozen=True, slots=True)
class UrlSettings:
    """``[urls]``"""

    extract: bool = _key(True, "links found in a message become attachments of its topic")
    allow: tuple[str, ...] = _key((), "if not empty, only links to these domains and their subdomains")
    block: tuple[str, ...] = _key((), "no links to these domains and their subdomains")


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """``[search]``"""

    fts: bool = _key(True, "keep a full-text index; without it search compares text")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``[log]``"""

    level: Literal["debug", "info", "warning", "error"] = _key(
        "info", "least level that is written", choices=("debug", "info", "warning", "error")
    )
    requests: Literal["all", "problems", "none"] = _key(
        "problems",
        "`all` writes a line per request, `problems` only those that failed or took over a second",
        choices=("all", "problems", "none"),
    )
    rotate_bytes: int = _key(10 * MIB, "size at which a detached hub's log file is rotated", low=4096)
    keep: int = _key(5, "rotated log files that are kept", low=1, high=1000)


@dataclass(frozen=True, slots=True)
class Settings:
    """All of ``parley.toml``."""

    hub: HubSettings = HubSettings()
    limits: LimitSettings = LimitSettings()
    rate_limits: RateLimitSettings = RateLimitSettings()
    websocket: WebSocketSettings = WebSocketSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    trouble: TroubleSettings = TroubleSettings()
    idempotency: IdempotencySettings = IdempotencySettings()
    urls: UrlSettings = UrlSettings()
    search: SearchSettings = SearchSettings()
    log: LogSettings = LogSettings()


class SettingSpec(NamedTuple):
    """One key of the registry."""

    table: str
    key: str
    default: object
    meaning: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @property
    def name(self) -> str:
        """``table.key``, as errors and docs name it."""
        return f"{self.table}.{self.key}"


def setting_specs() -> Iterator[SettingSpec]:
    """Every key of ``parley.toml``, in the order of the docs."""
    for table in fields(Settings):
        section = getattr(Settings(), table.name)
        for entry in fields(section):
            about = entry.metadata
            yield SettingSpec(
                table.name,
                entry.name,
                getattr(section, entry.name),
                about["meaning"],
                about["low"],
                about["high"],
                about["choices"],
            )
