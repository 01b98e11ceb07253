"""A small self-measurement: a real hub in a temporary workspace, called over loopback, figures as JSON.

It answers "is this machine, this disk, this version as fast as it should be?", so each figure stands beside the budget
it is held to. The caller and the hub share the machine, and the caller is Python: the figures are those of a modest
client.
"""

import http.client
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from parley.app.start import UNLIMITED, start_detached
from parley.app.stop import stop_hub
from parley.core.errors import ConnectionFailed
from parley.workspace import discovery
from parley.workspace.layout import Workspace

BUDGETS_MS: Final = {
    "insert": {"p50_ms": 10.0, "p99_ms": 50.0},
    "edit": {"p50_ms": 15.0, "p99_ms": 75.0},
    "tail": {"p50_ms": 20.0},
    "replay": {"ms_per_10k": 1000.0},
    "retopic": {"ms_per_1k": 200.0},
}
"""What a laptop should manage; a figure beyond its budget is a reason to look, not an error."""
CONNECTIONS: Final = 16
SAMPLES: Final = 200
STOP_SECONDS: Final = 20.0
ANSWER_SECONDS: Final = 60.0


class Caller:
    """One keep-alive connection to the hub."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise ConnectionFailed(f"{method} {path} was answered with {answer.status}", status=answer.status)
        return json.loads(text)

    def close(self) -> None:
        self._connection.close()


def run_bench(messages: int) -> dict[str, Any]:
    """Populates a workspace with this many messages and measures the calls that matter."""
    with _temporary_hub() as (workspace, report):
        token = workspace.token.read_text().strip()

        def connect() -> Caller:
            return Caller(report["host"], report["port"], token)

        with closing(connect()) as call:
            source, target = _topics(call)
            cpu_before = _cpu_seconds(report["pid"])
            results = {
                "populate": _populate(connect, source, messages),
                "insert": _timed(lambda index: call("POST", "/api/v1/messages", _message(source, index))),
                "edit": _edits(call, source),
                "tail": _timed(lambda _: call("GET", f"/api/v1/messages?topic_id={source}&limit=50")),
                "replay": _replay(report, token),
                "retopic": _retopic(call, source, target),
            }
            cpu = _cpu_seconds(report["pid"])
    for name, budget in BUDGETS_MS.items():
        results[name]["budget"] = budget
        results[name]["within_budget"] = all(results[name][figure] <= limit for figure, limit in budget.items())
    hub_cpu = None if cpu is None or cpu_before is None else round(cpu - cpu_before, 3)
    return {"messages": messages, "connections": CONNECTIONS, "hub_cpu_seconds": hub_cpu, "results": results}


@contextmanager
def _temporary_hub() -> Generator[tuple[Workspace, dict[str, Any]]]:
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        workspace = discovery.create(Path(folder))
        report = start_detached(workspace, UNLIMITED)
        try:
            yield workspace, report
        finally:
            stop_hub(workspace, STOP_SECONDS)


def _topics(call: Caller) -> list[str]:
    channel = call("POST", "/api/v1/channels", {"name": "bench"})["channel"]["id"]
    return [
        call("POST", "/api/v1/topics", {"channel_id": channel, "title": title})["topic"]["id"]
        for title in ("from", "to")
    ]


def _message(topic_id: str, index: int) -> dict[str, Any]:
    return {"topic_id": topic_id, "sender": "bench", "content_raw": f"message {index}: the quick brown fox"}


def _populate(connect: Callable[[], Caller], topic_id: str, messages: int) -> dict[str, Any]:
    def send(worker: int) -> None:
        with closing(connect()) as call:
            for index in range(worker, messages, CONNECTIONS):
                call("POST", "/api/v1/messages", _message(topic_id, index))

    started = time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(send, range(CONNECTIONS)))
    seconds = time.perf_counter() - started
    return {"count": messages, "seconds": round(seconds, 3), "per_second": round(messages / seconds)}


def _edits(call: Caller, topic_id: str) -> dict[str, Any]:
    message_id = call("POST", "/api/v1/messages", _message(topic_id, 0))["message"]["id"]
    return _timed(
        lambda index: call("PATCH", f"/api/v1/messages/{message_id}", {"op": "edit", "content_raw": f"edit {index}"})
    )


def _replay(report: dict[str, Any], token: str) -> dict[str, Any]:
    """All events from the first on, over one WebSocket."""
    from websockets.sync.client import connect

    started = time.perf_counter()
    with connect(f"ws://{report['host']}:{report['port']}/ws?token={token}", max_size=None) as feed:
        feed.send(json.dumps({"type": "hello", "after_event_id": 0}))
        until = json.loads(feed.recv())["replay_until"]
        events = 0
        while events < until:
            feed.recv()
            events += 1
    milliseconds = (time.perf_counter() - started) * 1000
    return {"events": events, "ms": round(milliseconds, 1), "ms_per_10k": round(milliseconds / events * 10_000, 1)}


def _retopic(call: Caller, source: str, target: str) -> dict[str, Any]:
    """All messages of a topic to another one."""
    message_id = call("GET", f"/api/v1/messages?topic_id={source}&limit=1")["messages"][0]["id"]
    started = time.perf_counter()
    body = {"op": "move_topic", "to_topic_id": target, "mode": "all"}
    moved = call("PATCH", f"/api/v1/messages/{message_id}", body)["affected_count"]
    milliseconds = (time.perf_counter() - started) * 1000
    return {"moved": moved, "ms": round(milliseconds, 1), "ms_per_1k": round(milliseconds / moved * 1000, 1)}


def _timed(action: Callable[[int], object]) -> dict[str, Any]:
    """The action on one connection, one call after another."""
    times: list[float] = []
    for index in range(SAMPLES):
        started = time.perf_counter()
        action(index)
        times.append((time.perf_counter() - started) * 1000)
    times.sort()

    def percentile(share: float) -> float:
        return round(times[min(len(times) - 1, math.ceil(share * len(times)) - 1)], 3)

    return {"count": SAMPLES, "p50_ms": percentile(0.50), "p99_ms": percentile(0.99), "max_ms": round(times[-1], 3)}


def _cpu_seconds(pid: int) -> float | None:
    """User and system time of a process; None where there is no ``/proc``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
