"""What a workspace may tune in ``parley.toml``: one class per table, one field per key.

The classes are the registry. Type, default, bounds and meaning of each key stand here once; the loader, ``doctor`` and
the docs read them from the fields' metadata.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, cast

from parley.core import limits

MIB = 1024 * 1024
_PORT: Final = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
TRUSTED_HOST: Final = re.compile(rf"(?:[a-z0-9][a-z0-9._-]{{0,252}}|\[[0-9a-f:.]{{2,45}}\])(?::(?!443\Z){_PORT})?")
"""A name as a browser writes it into ``Host``; one that it never writes would match no request."""


def setting_key(
    default: Any,
    meaning: str,
    *,
    kind: type | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    form: tuple[re.Pattern[str], str] | None = None,
    flag: str | None = None,
    flag_help: str = "",
    is_path: bool = False,
) -> Any:
    """One key. ``kind`` is the type where the default does not show it; ``form`` is a pattern and its name in words.

    ``flag`` is the option that the server's command has for it, ``flag_help`` what is said of that where the meaning of
    the key does not fit, and ``is_path`` tells that a value there is a path.
    """
    about: dict[str, Any] = {
        "meaning": meaning,
        "kind": type(default) if kind is None else kind,
        "low": low,
        "high": high,
        "choices": choices,
        "form": form,
        "flag": flag,
        "flag_help": flag_help,
        "is_path": is_path,
    }
    if isinstance(default, dict):
        return field(default_factory=cast("dict[str, Any]", default).copy, hash=False, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class HubSettings:
    """``[hub]``"""

    host: str = setting_key(
        "127.0.0.1", "address to listen on; anything but loopback also needs `--unsafe-network`", flag="--host"
    )
    port: int = setting_key(
        0, "port to listen on; 0 takes a free one, that of the last run if it can", low=0, high=65_535, flag="--port"
    )
    trusted_hosts: tuple[str, ...] = setting_key(
        (),
        "names, each with a port if it is not 443, under which a tunnel or proxy of yours shows the page over HTTPS",
        form=(
            TRUSTED_HOST,
            (
                "a list of names such as `parley.example.com` or `localhost:8443`, in lower case, with a port from 1 to"
                " 65,535 unless it is 443, which browsers leave out"
            ),
        ),
    )
    open_reads: bool = setting_key(False, "GET requests need no token, as in Agentlip")
    synchronous: Literal["full", "normal"] = setting_key(
        "full",
        "`full` syncs each commit to disk; `normal` may lose the last commits in a power cut",
        choices=("full", "normal"),
        flag="--synchronous",
    )
    drain_seconds: float = setting_key(10.0, "how long a stop waits for requests in flight", low=0, high=600)
    idle_shutdown_ms: int = setting_key(
        0, "stop after this long without a feed or a request; 0 never", low=0, flag="--idle-shutdown-ms"
    )
    writer_queue_max: int = setting_key(
        10_000, "writes that may wait before new ones are refused", low=1, high=1_000_000
    )
    token_grace_seconds: float = setting_key(
        300.0, "how long the old token stays valid after `parley token rotate`", low=0, high=86_400
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """``[limits]``"""

    message_bytes_max: int = setting_key(
        limits.CONTENT_BYTES_MAX, "UTF-8 bytes of a message's content", low=1, high=limits.CONTENT_BYTES_MAX
    )
    attachment_bytes_max: int = setting_key(
        limits.ATTACHMENT_BYTES_MAX, "bytes of an attachment's metadata", low=2, high=limits.ATTACHMENT_BYTES_MAX
    )
    body_bytes_max: int = setting_key(
        512 * 1024,
        "bytes of a request body; room for the largest content however it is escaped",
        low=1024,
        high=16 * MIB,
    )
    page_max: int = setting_key(limits.PAGE_LIMIT_MAX, "rows in one answer", low=1, high=10_000)
    move_batch_max: int = setting_key(500, "messages moved in one transaction", low=1, high=10_000)


@dataclass(frozen=True, slots=True)
class RateLimitSettings:
    """``[rate_limits]``"""

    enabled: bool = setting_key(
        True, "whether requests are limited", flag="--no-rate-limit", flag_help="Serve every request."
    )
    per_connection: int = setting_key(100, "requests per second of one connection or named agent", low=1)
    overall: int = setting_key(1_000, "requests per second of all together", low=1)


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """``[websocket]``"""

    connections_max: int = setting_key(100, "feeds served at once; one more gets 503", low=1, high=100_000)
    message_bytes_max: int = setting_key(256 * 1024, "bytes of a message from a client", low=128, high=16 * MIB)
    queue_max: int = setting_key(1_000, "events a slow feed may have waiting before it goes back to replay", low=1)
    replay_batch: int = setting_key(1_000, "events read at once while replaying", low=1, high=10_000)
    stall_seconds: float = setting_key(30.0, "a feed that takes nothing for this long is closed with 1008", low=0.1)
    hello_seconds: float = setting_key(10.0, "how long a new feed may take to say hello", low=0.1)
    ping_seconds: float = setting_key(20.0, "time between pings; an unanswered one closes the feed", low=0.1)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """``[checkpoint]``"""

    interval_seconds: float = setting_key(10.0, "time between checkpoints", low=0.1)
    wal_bytes: int = setting_key(8 * MIB, "a write-ahead log of this size is checkpointed at once", low=4096)
    idle_seconds: float = setting_key(30.0, "without writes for this long the log is truncated", low=0.1)


@dataclass(frozen=True, slots=True)
class TroubleSettings:
    """``[trouble]``"""

    wal_bytes_max: int = setting_key(100 * MIB, "above this size of the write-ahead log writes get 503", low=MIB)
    disk_free_bytes_min: int = setting_key(1024 * MIB, "below this free space writes get 503", low=0)


@dataclass(frozen=True, slots=True)
class IdempotencySettings:
    """``[idempotency]``"""

    retention_days: float = setting_key(7.0, "how long an idempotency key is remembered", low=0.01, high=3650)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """``[tasks]``"""

    ttl_seconds: int = setting_key(1_800, "how long a claim lasts unless it is renewed or says otherwise", low=1)
    ttl_seconds_max: int = setting_key(86_400, "the longest that a claim may ask for", low=1)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """``[leases]``"""

    ttl_seconds: int = setting_key(3_600, "how long a lease lasts unless it is renewed or says otherwise", low=1)
    ttl_seconds_max: int = setting_key(86_400, "the longest that a lease may ask for", low=1)
    sweep_seconds: float = setting_key(
        1.0, "time between looks for claims and leases that have ended", low=0.05, high=60
    )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """``[agents]``"""

    gone_after_minutes: float = setting_key(
        30.0, "an agent without a sign of life for this long is gone, and what it held is given back", low=0.01
    )
    seen_flush_seconds: float = setting_key(
        5.0, "how often signs of life are written to the database; in between they are in memory", low=0.05, high=600
    )


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """``[guard]``"""

    mode: Literal["warn", "block", "off"] = setting_key(
        "warn",
        "what `parley guard` does about a commit or push of paths that somebody else has leased exclusively",
        choices=("warn", "block", "off"),
    )


@dataclass(frozen=True, slots=True)
class UrlSettings:
    """``[urls]``"""

    extract: bool = setting_key(True, "links found in a message become attachments of its topic")
    allow: tuple[str, ...] = setting_key((), "if not empty, only links to these domains and their subdomains")
    block: tuple[str, ...] = setting_key((), "no links to these domains and their subdomains")


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """``[search]``"""

    fts: bool = setting_key(True, "keep a full-text index; without it search compares text")


@dataclass(frozen=True, slots=True)
class McpSettings:
    """``[mcp]``"""

    result_bytes_max: int = setting_key(
        24_000, "bytes of a tool's whole result, text and structured content together", low=8_192, high=MIB
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``[log]``"""

    level: Literal["debug", "info", "warning", "error"] = setting_key(
        "info", "least level that is written", choices=("debug", "info", "warning", "error")
    )
    requests: Literal["all", "problems", "none"] = setting_key(
        "problems",
        "`all` writes a line per request, `problems` only those that failed or took over a second;"
        " what the rate limit refused is counted in the metrics",
        choices=("all", "problems", "none"),
    )
    rotate_bytes: int = setting_key(10 * MIB, "size at which a detached hub's log file is rotated", low=4096)
    keep: int = setting_key(5, "rotated log files that are kept", low=1, high=1000)


PLUGIN_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
MODULE_PATH: Final = re.compile(r"(?!/)(?!(?:.*/)?\.\.(?:/|\Z))[^\x00-\x1f\\]{1,1000}")


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """One ``[[plugins]]`` table."""

    name: str = setting_key(
        MISSING,
        "what the plugin is called in results, status and commands",
        kind=str,
        form=(PLUGIN_NAME, "1 to 64 of a-z, 0-9, _ and -"),
    )
    type: Literal["linkifier", "extractor"] = setting_key(
        MISSING,
        "a `linkifier` marks parts of a message; an `extractor` adds attachments to its topic",
        kind=str,
        choices=("linkifier", "extractor"),
    )
    enabled: bool = setting_key(True, "whether it runs")
    required: bool = setting_key(False, "the hub does not start without it; otherwise it starts and says what is wrong")
    module: str | None = setting_key(
        None,
        "the plugin's file, or the folder of its package",
        kind=str,
        form=(MODULE_PATH, "a path inside the workspace, relative to its root and without .."),
    )
    builtin: str | None = setting_key(
        None,
        "a plugin that comes with Parley, in place of a module; with neither, the one of the same name",
        kind=str,
        choices=("links", "urls"),
    )
    config: Mapping[str, Any] = setting_key({}, "what the plugin's function gets as its second argument")
    deadline_seconds: float | None = setting_key(
        None, "in place of plugin_defaults.deadline_seconds", kind=float, low=0.05, high=600
    )
    network: bool = setting_key(False, "whether the plugin may use the network")
    memory_bytes: int | None = setting_key(
        None, "in place of plugin_defaults.memory_bytes", kind=int, low=64 * MIB, high=64 * 1024 * MIB
    )

    @property
    def source(self) -> str:
        """``built-in``, or the module's path as the file names it."""
        return "built-in" if self.module is None else self.module

    @property
    def builtin_name(self) -> str:
        """Which plugin of Parley it is, if it has no module."""
        return self.builtin or self.name


@dataclass(frozen=True, slots=True)
class PluginDefaultSettings:
    """``[plugin_defaults]``"""

    deadline_seconds: float = setting_key(5.0, "how long a plugin may take for one message", low=0.05, high=600)
    memory_bytes: int = setting_key(
        256 * MIB, "address space that each process of a plugin may have", low=64 * MIB, high=64 * 1024 * MIB
    )
    output_bytes: int = setting_key(MIB, "bytes a plugin may answer for one message", low=1024, high=64 * MIB)
    workers: int = setting_key(1, "processes that run one plugin side by side", low=1, high=8)
    attempts_max: int = setting_key(3, "runs of one version of a message before it counts as failed", low=1, high=100)
    retry_seconds: float = setting_key(
        5.0, "wait before the second run; it doubles with each further one", low=0, high=3600
    )
    settle_ms: int = setting_key(
        250, "an edit waits this long, so that a burst of edits costs one run", low=0, high=60_000
    )
    breaker_failures: int = setting_key(5, "failures in a row after which a plugin is paused", low=1, high=1000)
    breaker_seconds: float = setting_key(60.0, "how long it stays paused", low=0.1, high=86_400)
    idle_seconds: float = setting_key(300.0, "a process with nothing to do for this long ends", low=0.1, high=86_400)
    batch: int = setting_key(32, "messages handed to a process at once", low=1, high=1000)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """``[pipeline]``"""

    retention_days: float = setting_key(
        7.0, "how long files that left a table are kept, and with them the versions that had them", low=1, high=3650
    )
    answer_window_minutes: float = setting_key(
        60.0, "a message that replies to nothing answers the one before it if it comes within this time", low=0
    )
    stuck_after_hours: float = setting_key(24.0, "a topic with something open in it is stuck after this long", low=0)


@dataclass(frozen=True, slots=True)
class LinksConfig:
    """``config`` of the built-in plugin ``links``."""

    paths: bool = setting_key(True, "mark paths of files")
    code: bool = setting_key(True, "mark places in code: a file with a line or a range of lines")
    messages: bool = setting_key(True, "mark ids of messages")


@dataclass(frozen=True, slots=True)
class UrlsConfig:
    """``config`` of the built-in plugin ``urls``."""

    allow: tuple[str, ...] = setting_key((), "if not empty, only links to these domains and their subdomains")
    block: tuple[str, ...] = setting_key((), "no links to these domains and their subdomains")


class BuiltinPlugin(NamedTuple):
    """A plugin that comes with Parley."""

    type: str
    config: Any
    """The class of its ``config`` table."""


BUILTIN_PLUGINS: Final[Mapping[str, BuiltinPlugin]] = {
    "links": BuiltinPlugin("linkifier", LinksConfig),
    "urls": BuiltinPlugin("extractor", UrlsConfig),
}


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
    tasks: TaskSettings = TaskSettings()
    leases: LeaseSettings = LeaseSettings()
    agents: AgentSettings = AgentSettings()
    guard: GuardSettings = GuardSettings()
    urls: UrlSettings = UrlSettings()
    search: SearchSettings = SearchSettings()
    mcp: McpSettings = McpSettings()
    log: LogSettings = LogSettings()
    plugin_defaults: PluginDefaultSettings = PluginDefaultSettings()
    pipeline: PipelineSettings = PipelineSettings()
    plugins: tuple[PluginSettings, ...] = ()


class SettingSpec(NamedTuple):
    """One key of the registry."""

    table: str
    key: str
    default: object
    """None where the key has no value of its own when it is left out."""
    meaning: str
    kind: type
    required: bool
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    form: tuple[re.Pattern[str], str] | None
    flag: str | None
    flag_help: str
    is_path: bool

    @property
    def name(self) -> str:
        """``table.key``, as errors and docs name it."""
        return f"{self.table}.{self.key}"


def setting_specs() -> Iterator[SettingSpec]:
    """Every key of ``parley.toml``, in the order of the docs."""
    for table in fields(Settings):
        yield from table_specs(table.name, PluginSettings if table.name == "plugins" else table.type)


def table_specs(table: str, section: Any) -> Iterator[SettingSpec]:
    """The keys of one table, from its class."""
    for entry in fields(section):
        about = entry.metadata
        default = entry.default
        if entry.default_factory is not MISSING:
            default = entry.default_factory()
        yield SettingSpec(
            table,
            entry.name,
            None if default is MISSING else default,
            about["meaning"],
            about["kind"],
            default is MISSING,
            about["low"],
            about["high"],
            about["choices"],
            about["form"],
            about["flag"],
            about["flag_help"],
            about["is_path"],
        )
