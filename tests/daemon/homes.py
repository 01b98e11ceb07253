"""A broker and homes of users beside it, each with a daemon of its own, as commands leave them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from parley.app.lock_holder import stop_holder
from parley.client.daemon import DaemonClient
from parley.core.errors import RateLimited
from parley.core.instance_lock import probe
from parley.wire.daemon_home import DaemonHome
from tests.broker.process import SECONDS, Process, broker


class Said(NamedTuple):
    """What a command ended with and wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out or self.err)


class Home:
    """A user with a daemon's folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def types(self, *words: str) -> Said:
        environment = {**os.environ, "PARLEY_DAEMON_HOME": str(self.folder)}
        argv = [sys.executable, "-P", "-m", "parley", *words]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=SECONDS, check=False)
        return Said(done.returncode, done.stdout, done.stderr)

    def asks(self, *words: str) -> dict[str, Any]:
        """The answer to a command that succeeds, for a program."""
        said = self.types(*words, "--json")
        assert said.code == 0, said
        return said.json

    def client(self) -> DaemonClient:
        """For what a test needs and is not about."""
        return DaemonClient(DaemonHome(self.folder))

    def until(self, condition: Callable[[DaemonClient], bool]) -> None:
        """Asks the daemon until it is so, as often as it lets itself be asked."""
        deadline = time.monotonic() + SECONDS
        is_so = False
        with self.client() as client:
            while not is_so:
                assert time.monotonic() < deadline
                with suppress(RateLimited):
                    is_so = condition(client)

    def until_ended(self) -> None:
        """Waits for the end of the daemon's process."""
        deadline = time.monotonic() + SECONDS
        while probe(DaemonHome(self.folder).lock) is not None:
            assert time.monotonic() < deadline

    def log(self) -> list[str]:
        return (self.folder / "logs" / "daemon.log").read_text().splitlines()

    def has_key(self) -> None:
        self.until(lambda client: client.health().meshes[0].key_epoch is not None)

    def gets(self, body: str) -> None:
        self.until(lambda client: body in [each.body for each in client.inbox(mark_seen=False).items])


class Room:
    """A broker, and homes beside it, whose daemons are stopped at the end."""

    def __init__(self, process: Process, folder: Path, stopping: ExitStack) -> None:
        self.process = process
        self.folder = folder
        self._stopping = stopping

    def home(self, name: str, settings: str = "") -> Home:
        made = Home(self.folder / name)
        self._stopping.callback(stop_holder, DaemonHome(made.folder).lock, SECONDS)
        if settings:
            made.folder.mkdir(mode=0o700)
            (made.folder / "daemon.toml").write_text(settings)
        return made


@contextmanager
def opened_room() -> Iterator[Room]:
    """A room in a folder with a short name: the path of a socket must be."""
    folder = Path(tempfile.mkdtemp(prefix="p-"))
    try:
        with broker(folder / "broker", "--open-creation") as serving, ExitStack() as stopping:
            yield Room(serving, folder, stopping)
    finally:
        shutil.rmtree(folder)


class World:
    """A room in which ``ann`` owns a mesh and her daemon runs."""

    def __init__(self, room: Room, settings: str = "") -> None:
        self.process = room.process
        self.home = room.home
        self.ann = self.home("ann", settings)
        self.ann.asks("mesh", "create", "team", "--broker", self.process.http, "--name", "ann")
        assert self.ann.types("daemon", "up").code == 0
        self.ann.has_key()

    def invite(self) -> str:
        with self.ann.client() as client:
            return client.invite().invite

    def calls(self, method: str, **params: str) -> dict[str, Any]:
        """What ann asks of the broker."""
        with self.ann.client() as client:
            return client.call(method, params)

    def joined(self, name: str) -> Home:
        """A home whose member has the mesh's key."""
        made = self.home(name)
        made.asks("mesh", "join", self.invite(), "--name", name)
        assert made.types("daemon", "up").code == 0
        made.has_key()
        return made
