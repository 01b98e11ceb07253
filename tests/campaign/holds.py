"""What a log tells of claims and leases that must never have been."""

from collections.abc import Iterable
from typing import Any

from parley.core.fold import LoggedEvent
from parley.core.patterns import overlap


def hold_problems(events: Iterable[LoggedEvent]) -> list[str]:
    """Two holders of a task at one generation, a task done twice or by who did not hold it, leases in each other's way.

    Renewals are not in the log, so a lease may have stood longer than it shows; it never stood shorter.
    """
    problems: list[str] = []
    holders: dict[tuple[str, int], str] = {}
    newest: dict[str, int] = {}
    completed: set[str] = set()
    standing: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.name in ("task.claimed", "task.taken_over"):
            task = event.data["task"]
            if holders.setdefault((task["id"], task["generation"]), event.data["actor"]) != event.data["actor"]:
                problems.append(f"{task['id']} has two holders at generation {task['generation']}")
            newest[task["id"]] = task["generation"]
        elif event.name == "task.completed":
            task = event.data["task"]
            if task["id"] in completed:
                problems.append(f"{task['id']} was completed twice")
            completed.add(task["id"])
            if (newest.get(task["id"]), holders.get((task["id"], task["generation"]))) != (
                task["generation"],
                event.data["actor"],
            ):
                problems.append(f"{task['id']} was completed by who did not hold it")
        elif event.name == "lease.acquired":
            lease = event.data["lease"]
            problems += [f"{lease['id']} and {other['id']} overlap" for other in _in_the_way(standing, lease, event.ts)]
            standing[lease["id"]] = dict(lease)
        elif event.name in ("lease.released", "lease.expired"):
            standing.pop(event.data["lease"]["id"], None)
    return problems


def _in_the_way(standing: dict[str, dict[str, Any]], lease: Any, now: str) -> list[dict[str, Any]]:
    return [
        other
        for other in standing.values()
        if other["holder"] != lease["holder"]
        and other["expires_at"] > now
        and "exclusive" in (other["mode"], lease["mode"])
        and any(overlap(left, right) for left in other["patterns"] for right in lease["patterns"])
    ]
