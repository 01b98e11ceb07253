"""``parley status``: is the hub there, and how much is stored."""

from typing import Any

from parley.cli.call import Call, command, load_app, single
from parley.core.clock import SystemClock

app = single()

_WORDS = {
    "running": "The hub is running.",
    "not_running": "No hub is running. Start one with `parley up`.",
    "unreachable": "A hub holds the workspace but does not answer.",
    "db_mismatch": "What answers is the hub of another workspace.",
}


@command(app, "status")
def status(call: Call) -> int:
    """Show whether the hub runs, and how much the workspace holds.

    Exits with 0 when it runs, 3 when it does not or does not answer, 1 when another workspace's hub answers.
    """
    module = load_app("status")
    found: dict[str, Any] = module.workspace_status(call.workspace(), SystemClock())
    if call.json:
        call.out.data(found)
    else:
        call.out.line(_WORDS[found["status"]])
        for key, value in found.items():
            if key != "status" and value not in (None, []):
                call.out.line(f"  {key.replace('_', ' ')}: {_shown(key, value)}")
    return module.EXITS[found["status"]]


def _shown(key: str, value: Any) -> str:
    if key == "growth_per_day":
        return f"{value['events']} events, {_size(value['bytes'])}"
    if key == "jobs":
        age = f", the oldest for {value['oldest_waiting_seconds']:.0f} s" if value["waiting"] else ""
        return f"{value['waiting']} waiting{age}, {value['failed']} failed"
    if key == "coordination":
        return (
            f"{value['agents_active']} agents, {value['tasks_open']} tasks open and {value['tasks_claimed']} claimed,"
            f" {value['leases_active']} leases"
        )
    if key.endswith("_bytes"):
        return _size(value)
    return "; ".join(value) if key == "problems" else str(value)


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return ""
