"""Commands where no socket can be opened: they reach the hub through files, by themselves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.client import Client
from parley.core.errors import HubNotRunning
from tests.cli.conftest import Ran
from tests.client.hubs import DEADLINE_SECONDS, HubProcess

WITHOUT_NETWORK = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
_CAN = subprocess.run([*WITHOUT_NETWORK, "true"], capture_output=True, check=False).returncode == 0
pytestmark = pytest.mark.skipif(
    not _CAN and os.environ.get("CI") != "true", reason="this kernel lets nobody take the network away"
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    root = tmp_path_factory.mktemp("workspace")
    process = HubProcess(root).start()
    yield process
    process.stop()


def parley(hub: HubProcess, *args: str) -> Ran:
    """A command in a network of its own, in which nothing can be reached."""
    ended = subprocess.run(
        [*WITHOUT_NETWORK, sys.executable, "-m", "parley", *args, "--workspace", str(hub.root)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


def json_of(hub: HubProcess, *args: str) -> Any:
    ran = parley(hub, *args, "--json")
    assert ran.code == 0, ran.stderr
    return json.loads(ran.stdout)


def test_control_no_socket_reaches_the_hub_from_there(hub: HubProcess) -> None:
    program = f"import socket; socket.create_connection(('127.0.0.1', {hub.server.port}), 5)"
    ended = subprocess.run([*WITHOUT_NETWORK, sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode != 0
    assert b"unreachable" in ended.stderr.lower()


def test_writes_and_reads_work_without_a_socket(hub: HubProcess) -> None:
    channel = json_of(hub, "channel", "create", "sandboxed")["channel"]["id"]
    topic = json_of(hub, "topic", "create", "--channel-id", channel, "--title", "By file")["topic"]["id"]
    sent = json_of(hub, "msg", "send", "--topic-id", topic, "--sender", "ann", "--content", "from inside ✓")
    message = sent["message"]["id"] if "message" in sent else sent["message_id"]
    refused = parley(hub, "msg", "edit", message, "--content", "x", "--expected-version", "7")
    assert refused.code == 2, "a refusal comes through with its exit code"
    with Client(hub.root) as client:
        assert client.get_message(message).message.content_raw == "from inside ✓"


def test_they_work_where_nothing_but_the_spool_can_be_written(hub: HubProcess) -> None:
    state, spool = hub.workspace.state, hub.workspace.spool
    lock_in = (
        f"mount --bind '{state}' '{state}' && mount --bind '{spool}' '{spool}' && mount -o remount,ro,bind '{state}'"
        f" && ! touch '{state}/probe' 2>/dev/null && exec \"$@\""
    )
    command = [sys.executable, "-m", "parley", "channel", "create", "read-only", "--workspace", str(hub.root)]
    ended = subprocess.run(
        [*WITHOUT_NETWORK, "--mount", "sh", "-c", lock_in, "sh", *command],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    with Client(hub.root) as client:
        assert "read-only" in {channel.name for channel in client.list_channels().channels}


def test_a_feed_follows_the_log_without_a_socket(hub: HubProcess) -> None:
    listening = subprocess.Popen(
        [*WITHOUT_NETWORK, sys.executable, "-m", "parley", "listen", "--workspace", str(hub.root), "--channel", "fed"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert listening.stdout is not None
    try:
        with Client(hub.root) as client:
            other = client.create_channel("not-fed").channel
            client.create_topic(other.id, "elsewhere")
            channel = client.create_channel("fed").channel
            topic = client.create_topic(channel.id, "here").topic
        lines = [json.loads(listening.stdout.readline()) for _ in range(2)]
    finally:
        listening.terminate()
        listening.wait(DEADLINE_SECONDS)
        listening.stdout.close()
    assert [(line["name"], line["entity"]["id"]) for line in lines] == [
        ("channel.created", channel.id),
        ("topic.created", topic.id),
    ]


def test_a_dead_hub_is_said_to_be_one_at_once(tmp_path: Path) -> None:
    process = HubProcess(tmp_path).start()
    process.kill()
    os.utime(process.workspace.spool / "alive")
    assert process.workspace.server_file.exists(), "as a crash leaves it"
    with Client(tmp_path) as client, pytest.raises(HubNotRunning, match="No hub answers at http:"):
        client.create_channel("nobody")
    assert list((process.workspace.spool / "requests").iterdir()) == []


def test_a_request_that_nobody_takes_is_taken_back(tmp_path: Path) -> None:
    """A hub that hangs still looks alive for a while; what was left there must not be done when it wakes up."""
    process = HubProcess(tmp_path).start()
    os.kill(process.server.pid, signal.SIGSTOP)
    try:
        os.utime(process.workspace.spool / "alive")
        with Client(tmp_path, timeout=1.0) as client, pytest.raises(HubNotRunning, match="no hub took"):
            client.create_channel("nobody")
        assert list((process.workspace.spool / "requests").iterdir()) == []
    finally:
        process.kill()
