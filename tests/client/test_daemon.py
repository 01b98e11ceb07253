"""The daemon's clients: the same calls blocking and to be awaited, and a stream that outlives its daemon."""

import inspect
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parley.client.daemon import AsyncDaemonClient, DaemonClient, StreamedEvent
from parley.client.daemon_events import EventStream
from parley.core.daemon_errors import DaemonNotRunning, TooManyStreams
from parley.core.errors import CursorExpired, NotFound
from parley.daemon.databases import open_inbox, open_outbox
from parley.daemon.inbox.events import append_event
from parley.daemon.memberships import Memberships
from parley.wire.daemon_answers import Peers
from parley.wire.daemon_home import DaemonHome
from tests.daemon.served_daemon import BOB, member
from tests.daemon.world import commit

SECONDS = 90
LATER = 4_102_444_800_000
"""A time that no upkeep takes for old."""


class Machine:
    """A daemon that is started, killed and started again."""

    def __init__(self, home: DaemonHome) -> None:
        self.home = home
        self.pid = 0

    def up(self) -> None:
        self.pid = self.parley("up")["pid"]

    def parley(self, *words: str) -> dict[str, Any]:
        argv = [sys.executable, "-P", "-m", "parley", "daemon", *words, "--json"]
        environment = {**os.environ, "PARLEY_DAEMON_HOME": str(self.home.root)}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=SECONDS, check=True)
        return json.loads(done.stdout)

    def kill(self) -> None:
        ending = os.pidfd_open(self.pid)
        try:
            os.kill(self.pid, signal.SIGKILL)
            assert select.select([ending], [], [], SECONDS)[0], "it goes on"
        finally:
            os.close(ending)

    def happens(self, name: str) -> None:
        """Something is in the log, from before the next start."""
        with closing(open_inbox(self.home.inbox).connection) as inbox:
            commit(inbox, lambda db: append_event(db, "system", {"name": name}, now_ms=LATER))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    home = DaemonHome(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    Memberships(home.memberships).put(member("team"))
    open_outbox(home.outbox).close()
    made = Machine(home)
    yield made
    made.parley("down")


def named(event: StreamedEvent) -> str:
    return str(event.data.get("name", ""))


def test_a_stream_goes_on_over_a_crash_of_the_daemon(machine: Machine) -> None:
    machine.happens("first")
    machine.up()
    with DaemonClient(machine.home, random=lambda: 0.0) as client:
        events = client.follow(after=0)
        seen = [_next(events, "first")]
        machine.kill()
        machine.happens("second")
        machine.up()
        seen.append(_next(events, "second"))
        numbers = [event.id for event in seen]
        assert numbers == sorted(set(numbers), key=lambda number: number or 0)


def _next(events: Iterator[StreamedEvent], name: str) -> StreamedEvent:
    return next(event for event in events if named(event) == name)


async def test_a_stream_that_is_awaited_goes_on_too_and_from_where_it_began(machine: Machine) -> None:
    machine.happens("before")
    machine.up()
    async with AsyncDaemonClient(machine.home, random=lambda: 0.0) as client:
        assert (await client.health()).pid == machine.pid
        seen: list[str] = []
        events = client.follow(after=0)
        async for event in events:
            seen.append(named(event))
            if named(event) == "before":
                machine.kill()
                machine.happens("meanwhile")
                machine.up()
            if named(event) == "meanwhile":
                break
        await events.aclose()
    assert seen.count("before") == seen.count("meanwhile") == 1


async def test_both_clients_make_the_same_calls(machine: Machine) -> None:
    machine.up()
    with DaemonClient(machine.home) as one:
        sent = one.send(BOB, "hello", client_message_id="m-1", meta={"a": 1})
        token = one.begin_session("reviewer", role="critic")
        assert one.own_session().session_id == "reviewer"
        async with AsyncDaemonClient(machine.home, session=token) as other:
            assert (await other.own_session()).pid == os.getpid()
            assert await other.send(BOB, "hello", client_message_id="m-1", meta={"a": 1}) == sent
            assert await other.outbox(status="pending") == one.outbox(status="pending")
            assert (await other.inbox(unread_only=True)).items == one.inbox(unread_only=True).items == []
            assert await other.wait_for_messages(0.1) == one.wait_for_messages(0.1) == one.inbox()
            assert await other.peers() == one.peers() == Peers([], ["team"])
            assert await other.end_session()
            assert not await other.end_session()
        with pytest.raises(NotFound):
            one.own_session()
        assert not one.end_session()
    public = [
        {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
        for kind in (DaemonClient, AsyncDaemonClient)
    ]
    assert public[0] - {"close"} == public[1] - {"aclose"}


async def test_without_a_daemon_nobody_waits(tmp_path: Path) -> None:
    home = DaemonHome(tmp_path / "nothing")
    with DaemonClient(home) as client, pytest.raises(DaemonNotRunning):
        next(client.follow())
    async with AsyncDaemonClient(home) as other:
        with pytest.raises(DaemonNotRunning):
            await other.peers()
        with pytest.raises(DaemonNotRunning):
            async for _ in other.events():
                pass


def test_a_stream_knows_where_it_is_and_when_to_give_up() -> None:
    stream = EventStream(None, lambda: 0.0)
    with pytest.raises(DaemonNotRunning):
        stream.lost(DaemonNotRunning("nobody"))
    assert stream.lost(TooManyStreams("too many", limit=1)) == 0.5
    assert stream.headers == {}
    assert [stream.hear(line) for line in (": connected", "id: 7", "")] == [None, None, None]
    assert stream.headers == {"last-event-id": "7"}
    assert stream.hear("id: 8") is None
    assert stream.hear("event: message") is None
    assert stream.lost(DaemonNotRunning("gone")) == 0.5  # what was half heard is heard again
    assert stream.lost(None) == 1.0
    assert stream.headers == {"last-event-id": "7"}
    heard = [stream.hear(line) for line in ("id: 8", "event: message", 'data: {"a": 1}', "")]
    assert heard[-1] == StreamedEvent(8, "message", {"a": 1})
    assert [stream.hear(line) for line in ("event: lagged", "data: {}", "")][-1] == StreamedEvent(None, "lagged", {})
    assert stream.after == 8
    with pytest.raises(CursorExpired):
        stream.lost(CursorExpired("forgotten", oldest_cursor=9, newest_cursor=10))
