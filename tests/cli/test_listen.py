"""``parley listen``: a process that prints events, across restarts of the hub."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley.app.start import UpOptions, start_detached
from parley.app.stop import stop_hub
from parley.client import Client
from parley.workspace import discovery
from parley.workspace.layout import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = discovery.create(tmp_path)
    start_detached(workspace, UpOptions())
    yield workspace
    stop_hub(workspace, 30)


@contextmanager
def listening(workspace: Workspace, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-m", "parley", "listen", "--workspace", str(workspace.root), *flags]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def next_event(process: "subprocess.Popen[str]") -> dict[str, object]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_history_then_what_comes_and_ends_cleanly(workspace: Workspace, number: signal.Signals) -> None:
    with Client(workspace.root) as client, listening(workspace, "--format", "jsonl") as process:
        general = client.create_channel("general").channel
        assert next_event(process)["name"] == "channel.created"
        client.create_topic(general.id, "One")
        event = next_event(process)
        assert event.keys() == {"type", "event_id", "ts", "name", "scope", "data", "entity"}
        assert (event["type"], event["name"]) == ("event", "topic.created")
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
        assert (process.returncode, stdout, stderr) == (0, "", "")


def test_filters_and_the_cursor_choose_what_is_printed(workspace: Workspace) -> None:
    with Client(workspace.root) as client:
        one, two = (client.create_channel(name).channel for name in ("one", "two"))
        first = client.create_topic(one.id, "First").topic
        client.create_topic(two.id, "Other")
        last = client.send_message(first.id, "hello", "ann")
        with listening(workspace, "--since", "2", "--channel", "one", "--jsonl") as process:
            assert [next_event(process)["name"] for _ in range(2)] == ["topic.created", "message.created"]
        with listening(
            workspace, "--topic-id", first.id, "--since", str(last.event_id - 1 if last.event_id else 0)
        ) as one_topic:
            assert next_event(one_topic)["event_id"] == last.event_id


def test_it_survives_a_restart_of_the_hub_and_misses_nothing(workspace: Workspace) -> None:
    with listening(workspace) as process:
        with Client(workspace.root) as client:
            client.create_channel("before")
        assert next_event(process)["event_id"] == 1
        stop_hub(workspace, 30)
        start_detached(workspace, UpOptions())
        with Client(workspace.root) as client:
            client.create_channel("after")
        assert next_event(process)["event_id"] == 2
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    notices = stderr.splitlines()
    assert notices[0].startswith("disconnected after event 1")
    assert notices[-1].startswith("reconnected after event 1")


def test_it_stops_when_its_reader_has_gone(workspace: Workspace) -> None:
    with Client(workspace.root) as client, listening(workspace) as process:
        assert process.stdout is not None
        client.create_channel("one")
        next_event(process)
        process.stdout.close()
        client.create_channel("two")
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
