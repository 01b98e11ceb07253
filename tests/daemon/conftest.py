"""A database of each kind, daemons in this process, and the command of a user; all are closed at the end."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from parley.app.services import CI_VARIABLES
from parley.core import sealing
from parley.daemon.config import parse_daemon_settings
from parley.daemon.databases import open_inbox, open_outbox
from parley.daemon.home import prepare_home
from parley.daemon.memberships import Memberships
from parley.wire.daemon_home import DaemonHome
from tests.daemon.served_daemon import MakeServed, ServedDaemon, member

Parley = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(autouse=True)
def _not_on_a_build_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """There a daemon is ephemeral; a test that wants that says so itself."""
    for name in CI_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_outbox(tmp_path / "outbox.db")
    yield connection
    connection.close()


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_inbox(tmp_path / "inbox.db").connection
    yield connection
    connection.close()


@pytest.fixture
async def make_served(tmp_path: Path) -> AsyncIterator[MakeServed]:
    async with AsyncExitStack() as open_desks:

        async def make(
            *meshes: str, name: str = "home", empty: bool = False, started: bool = True, **tables: Any
        ) -> ServedDaemon:
            home = DaemonHome(tmp_path / name)
            prepare_home(home)
            memberships = Memberships(home.memberships)
            memberships.load()
            for number, slug in enumerate(() if empty else meshes or ("team",)):
                memberships.put(member(slug, sealing.new_key(lambda count, number=number: bytes([number + 1]) * count)))
            served = ServedDaemon(home, parse_daemon_settings(tables))
            open_desks.push_async_callback(served.close)
            if started:
                await served.daemon.start()
            return served

        yield make


@pytest.fixture
async def served(make_served: MakeServed) -> ServedDaemon:
    return await make_served()


@pytest.fixture
def home(tmp_path: Path) -> DaemonHome:
    found = DaemonHome(tmp_path / "home")
    found.root.mkdir(mode=0o700)
    Memberships(found.memberships).put(member("team"))
    return found


@pytest.fixture
def parley(home: DaemonHome, tmp_path: Path) -> Iterator[Parley]:
    environment = {
        **os.environ,
        "PARLEY_DAEMON_HOME": str(home.root),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PARLEY_PASSPHRASE": "correct horse battery",
    }

    def run(*words: str, **more: str) -> tuple[int, dict[str, Any]]:
        argv = [sys.executable, "-P", "-m", "parley", *words, "--json"]
        done = subprocess.run(
            argv, capture_output=True, text=True, env={**environment, **more}, timeout=90, check=False
        )
        text = done.stdout or done.stderr
        return done.returncode, json.loads(text)

    yield run
    run("daemon", "down")
