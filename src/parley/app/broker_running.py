"""The brokers that serve from a folder: showing them, and stopping them."""

from pathlib import Path
from typing import Any, Final

import msgspec

from parley.app.broker import broker_folder
from parley.app.lock_holder import stop_holder
from parley.broker.instances import Instance, instances, lock_of

ASK_SECONDS: Final = 5.0


def running(folder: Path | None, port: int | None = None) -> list[Instance]:
    """Those that live; with a port the one on it."""
    return [each for each in instances(broker_folder(folder)) if port in (None, each.port)]


def shown(instance: Instance) -> dict[str, Any]:
    """A broker with whether it takes writes; None where it cannot be asked without knowing its certificate."""
    return {**msgspec.to_builtins(instance), "ready": None if instance.tls else _is_ready(instance)}


def stop(folder: Path | None, port: int | None, timeout_seconds: float) -> list[dict[str, Any]]:
    """Ends them, one after the other, and returns when they have ended. Raises ``StartupFailed`` if one cannot be."""
    found: list[dict[str, Any]] = []
    for instance in running(folder, port):
        stopped = stop_holder(lock_of(broker_folder(folder), instance), timeout_seconds)
        if stopped.pid is not None:
            found.append({"pid": stopped.pid, "port": instance.port, "killed": stopped.killed})
    return found


def _is_ready(instance: Instance) -> bool:
    import httpx

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(instance.host, instance.host)
    place = f"[{host}]" if ":" in host else host
    try:
        answer = httpx.get(f"http://{place}:{instance.port}/v1/ready", timeout=ASK_SECONDS, trust_env=False)
    except httpx.TransportError:
        return False
    return answer.is_success
