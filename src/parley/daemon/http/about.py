"""Routes about the daemon itself."""

import os
from typing import TYPE_CHECKING, Final

from parley import __version__
from parley.daemon.databases import OUTBOX_MIGRATIONS
from parley.daemon.features import REQUIRED
from parley.daemon.http.meshes import mesh_view
from parley.daemon.inbox.reading import unseen_and_sealed
from parley.daemon.outbox.rows import oldest_waiting, states
from parley.serve.endpoint import Answer, Call
from parley.wire.broker import PROTOCOL_VERSION
from parley.wire.daemon_answers import Compatibility, DaemonHealth, DaemonVersion, Heartbeat

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon

INBOX_FULL: Final = "the inbox is full of messages that nobody has seen: what arrives waits at its broker"

IPC_API: Final = "v1"
IPC_FEATURES: Final = [
    "version",
    "health",
    "send",
    "topic",
    "inbox",
    "outbox",
    "events",
    "peers",
    "profile",
    "sessions",
    "mesh",
]


async def get_version(daemon: "Daemon", call: Call) -> Answer:
    negotiated = {mesh.slug: mesh_view(mesh).features for mesh in daemon.meshes.values()}
    version = DaemonVersion(__version__, IPC_API, IPC_FEATURES, len(OUTBOX_MIGRATIONS), daemon.instance_id, negotiated)
    return Answer(200, version)


async def get_compat(daemon: "Daemon", call: Call) -> Answer:
    major = __version__.split(".", maxsplit=1)[0]
    sdks = {"python": f">={major},<{int(major) + 1}"}
    return Answer(200, Compatibility(__version__, PROTOCOL_VERSION, list(REQUIRED), [f"{major}.x"], sdks))


async def get_health(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, health(daemon))


def health(daemon: "Daemon") -> DaemonHealth:
    """How the daemon is: its meshes, what waits, and what is wrong."""
    depth = daemon.store.read_outbox(states)
    unseen, sealed = daemon.store.read_inbox(unseen_and_sealed)
    meshes = list(daemon.meshes.values())
    open_meshes = [mesh for mesh in meshes if mesh.runner.status == "open"]
    disk, inbox_share = daemon.disk.now(), daemon.capacity.inbox_share()
    problems = [*disk.problems, *([INBOX_FULL] if inbox_share >= 1 else [])]
    return DaemonHealth(
        ok=True,
        degraded=bool(problems),
        problems=problems,
        disk_free_bytes=disk.disk.free_bytes,
        pid=os.getpid(),
        instance_id=daemon.instance_id,
        daemon_version=__version__,
        uptime_s=round(daemon.clock.monotonic() - daemon.started_at),
        connected=len(open_meshes) == len(meshes) and bool(meshes),
        brokers={mesh.slug: mesh.runner.status for mesh in meshes},
        socket=str(daemon.home.socket),
        port=daemon.port,
        meshes=[mesh_view(mesh) for mesh in meshes],
        lag_ms=max((lag for mesh in open_meshes if (lag := mesh.lag_ms) is not None), default=None),
        queue_depth=depth["pending"],
        inflight=depth["inflight"],
        dead=depth["dead"],
        outbox_share=round(daemon.capacity.outbox_share(), 4),
        inbox_share=round(inbox_share, 4),
        **daemon.capacity.sizes(),
        unseen=unseen,
        undecryptable=sealed,
        streams=len(daemon.feed),
        schema_version=len(OUTBOX_MIGRATIONS),
    )


async def post_heartbeat(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, Heartbeat(True, daemon.instance_id))


async def get_metrics(daemon: "Daemon", call: Call) -> Answer:
    """The gauges are set when somebody looks."""
    _set_gauges(daemon)
    return Answer(200, daemon.metrics.render(), daemon.metrics.content_type.encode())


def _set_gauges(daemon: "Daemon") -> None:
    """Writes down how things stand."""
    metrics = daemon.metrics
    now = health(daemon)
    oldest = daemon.store.read_outbox(oldest_waiting)
    age = 0.0 if oldest is None else (daemon.clock.now_ms() - oldest) / 1000
    for name, value in (
        ("meshes", len(now.meshes)),
        ("connected", sum(status == "open" for status in now.brokers.values())),
        ("lag_ms", now.lag_ms or 0.0),
        ("outbox_pending", now.queue_depth),
        ("outbox_inflight", now.inflight),
        ("outbox_dead", now.dead),
        ("outbox_age_seconds", max(0.0, age)),
        ("outbox_share", now.outbox_share),
        ("inbox_share", now.inbox_share),
        ("inbox_unseen", now.unseen),
        ("inbox_undecryptable", now.undecryptable),
        ("disk_free_bytes", now.disk_free_bytes),
        ("disk_free_ratio", daemon.disk.now().disk.free_ratio),
        ("streams", now.streams),
        ("uptime_seconds", now.uptime_s),
    ):
        metrics.set(f"parley_daemon_{name}", float(value))
    for (name, *labels), number in daemon.tally.take().items():
        metrics.inc(name, number, *labels)
    for kind, number in daemon.feed.take_counts().items():
        metrics.inc("parley_daemon_events_total", number, kind)
    for (hook, outcome), number in daemon.hooks.take_runs().items():
        metrics.inc("parley_daemon_hook_runs_total", number, hook, outcome)
