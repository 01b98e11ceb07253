"""The two runners carry out the same steps with the same outcomes."""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from parley.client.runners import AsyncRunner, BlockingRunner
from parley.client.steps import Exited, Outcome, Pause, Request, Spawn, Step, Steps
from parley.core.errors import ConnectionFailed

Run = Callable[[Step], Outcome]


def one(step: Step) -> Steps[Outcome]:
    return (yield step)


def blocking(step: Step) -> Outcome:
    runner = BlockingRunner(0.2)
    try:
        return runner.run(one(step))
    finally:
        runner.close()


def asynchronous(step: Step) -> Outcome:
    async def run() -> Outcome:
        runner = AsyncRunner(0.2)
        try:
            return await runner.run(one(step))
        finally:
            await runner.aclose()

    return asyncio.run(run())


both = pytest.mark.parametrize("run", [blocking, asynchronous])


@both
def test_a_command_is_run_to_its_end_and_its_complaint_is_kept(run: Run) -> None:
    script = "import sys; print('data'); print('complaint', file=sys.stderr); sys.exit(7)"
    assert run(Spawn((sys.executable, "-c", script))) == Exited(7, "complaint\n")


@both
def test_a_process_that_stays_behind_does_not_hold_the_caller(run: Run) -> None:
    """It keeps the stderr that it was born with, as a hub might; it ends when the pipe to it is closed."""
    stay = "import sys; sys.stdin.read()"
    script = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {stay!r}], stdin=open(sys.argv[1]))"
    reading, writing = os.pipe()
    try:
        step = Spawn((sys.executable, "-W", "ignore", "-c", script, f"/proc/{os.getpid()}/fd/{reading}"))
        assert run(step) == Exited(0, "")
    finally:
        os.close(reading)
        os.close(writing)


@both
def test_a_refused_connection_and_a_silent_server_are_failures_without_an_answer(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/health"
        outcome = run(Request("GET", url, {}))
        assert isinstance(outcome, ConnectionFailed)
        assert "Timeout" in outcome.message
    outcome = run(Request("GET", url, {}))
    assert isinstance(outcome, ConnectionFailed)
    assert outcome.details == {"method": "GET", "url": url}


@both
@pytest.mark.parametrize(
    ("url", "checked"), [("http://127.0.0.1:1", False), ("https://127.0.0.1:1", True), ("HTTPS://127.0.0.1:1", True)]
)
def test_certificates_are_checked_wherever_tls_may_be_spoken(
    run: Run, url: str, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    original = httpx.create_ssl_context

    def record(verify: bool = True, **options: Any) -> ssl.SSLContext:
        asked.append(verify)
        return original(verify=verify, **options)

    monkeypatch.setattr("httpx._transports.default.create_ssl_context", record)
    assert isinstance(run(Request("GET", url, {})), ConnectionFailed)
    assert set(asked) == {checked}


@both
def test_a_pause_has_no_outcome(run: Run) -> None:
    assert run(Pause(0.0)) is None
