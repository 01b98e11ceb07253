"""A daemon and its files: nobody else writes them, and none of them vanishes unnoticed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.core.clock import SystemClock
from parley.core.exits import Exit
from parley.daemon.key_archive import KeyArchive
from parley.wire.daemon_home import DaemonHome
from tests.daemon.conftest import Parley
from tests.daemon.served_daemon import BOB
from tests.hub.lifecycle.processes import until
from tests.ordinary import ordinary_user

SECONDS = 60.0


class Foreground:
    """A daemon that is a child of this process, so that its exit code can be seen."""

    def __init__(self, home: DaemonHome) -> None:
        self._errors = home.root.with_name("daemon.stderr")
        argv = [sys.executable, "-P", "-m", "parley", "daemon", "up", "--foreground", "--json"]
        environment = {**os.environ, "PARLEY_DAEMON_HOME": str(home.root)}
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        assert self._process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self._process.stdout.readline()
            assert line, self._errors.read_text()
            text += line
        self.pid = self._process.pid

    def ended(self) -> int:
        return self._process.wait(SECONDS)

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._errors.read_text().splitlines() if line.startswith('{"ts"')]

    def warnings_about(self, path: Path) -> int:
        told = (f"{line.get('path', '')} {line.get('problem', '')}" for line in self.log if line["level"] == "warning")
        return sum(str(path) in each for each in told)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def daemon(home: DaemonHome) -> Iterator[Foreground]:
    started = Foreground(home)
    yield started
    started.close()


@pytest.mark.parametrize("gone", ["lock", "lock and socket"])
def test_h1_a_removed_lock_file_lets_no_second_daemon_in(
    daemon: Foreground, home: DaemonHome, parley: Parley, gone: str
) -> None:
    """The first one is stopped, so that it cannot notice: its socket tells, and the databases themselves are locked."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        home.lock.unlink()
        if gone == "lock and socket":
            home.socket.unlink()
        code, said = parley("daemon", "up")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert (code, said.get("code")) == (Exit.ALREADY_RUNNING, "WRITER_LOCK_HELD")
    assert said["details"]["pid"] == daemon.pid
    assert daemon.ended() == Exit.WORKSPACE_UNSAFE


@pytest.mark.parametrize("lost", ["outbox.db", "outbox.db-wal"])
def test_h3_no_message_is_taken_when_a_database_is_lost(
    daemon: Foreground, home: DaemonHome, parley: Parley, lost: str
) -> None:
    assert parley("send", BOB, "kept", "--id", "m-1")[0] == Exit.OK
    (home.root / lost).unlink()
    code, said = parley("send", BOB, "lost", "--id", "m-2", "--no-start")
    assert code != Exit.OK
    assert said.get("code") in ("FILES_LOST", "DAEMON_NOT_RUNNING", "SHUTTING_DOWN")
    assert daemon.ended() == Exit.WORKSPACE_UNSAFE
    (told,) = [line for line in daemon.log if line["msg"] == "files_lost"]
    assert told["path"] == str(home.root / lost)
    if lost == "outbox.db-wal":
        assert parley("daemon", "up")[0] == Exit.OK
        assert parley("daemon", "outbox", "inspect", "m-1")[1]["message"] == "kept"


@pytest.mark.parametrize("lost", ["inbox.db", "inbox.db-wal", "locks/daemon.lock"])
def test_h3_a_daemon_ends_when_it_no_longer_holds_its_files(daemon: Foreground, home: DaemonHome, lost: str) -> None:
    (home.root / lost).unlink()
    until(lambda: any(line["msg"] == "files_lost" for line in daemon.log))
    assert daemon.ended() == Exit.WORKSPACE_UNSAFE


def test_h4_what_a_daemon_is_found_by_is_made_again_with_one_warning_each(
    daemon: Foreground, home: DaemonHome, parley: Parley
) -> None:
    kept = [home.socket, home.token, home.memberships, *([home.port_file] if home.port_file.exists() else [])]
    token, memberships = home.token.read_text(), home.memberships.read_bytes()
    for path in kept:
        path.unlink()
    until(lambda: all(path.exists() for path in kept))
    assert (home.token.read_text(), home.memberships.read_bytes()) == (token, memberships)
    assert home.socket.stat().st_mode & 0o777 == 0o600
    code, status = parley("daemon", "status")
    assert (code, status["pid"]) == (Exit.OK, daemon.pid)
    assert parley("send", BOB, "hello")[0] == Exit.OK
    home.socket.unlink()
    until(home.socket.exists)
    until(lambda: daemon.warnings_about(home.socket) == 2)
    assert [daemon.warnings_about(path) for path in (home.token, home.memberships)] == [1, 1]
    home.token.write_text("")
    until(lambda: home.token.read_text() == token)


@pytest.mark.parametrize("while_it_ends", [False, True])
def test_h4_keys_that_are_gone_when_a_daemon_is_stopped_are_there_afterwards(
    daemon: Foreground, home: DaemonHome, while_it_ends: bool
) -> None:
    """Nobody else has them; and it is asked to stop before the second in which it looks is over."""
    memberships = home.memberships.read_bytes()
    if not while_it_ends:
        home.memberships.unlink()
    os.kill(daemon.pid, signal.SIGTERM)
    if while_it_ends:
        home.memberships.unlink()
    assert daemon.ended() == Exit.OK
    assert home.memberships.read_bytes() == memberships


def test_h4_keys_that_were_replaced_are_written_again_as_well(home: DaemonHome) -> None:
    archive = KeyArchive(home.key_archive)
    archive.add("mesh_1", bytes(range(32)), now_ms=SystemClock().now_ms(), grace_days=7)
    kept = home.key_archive.read_bytes()
    serving = Foreground(home)
    try:
        home.key_archive.unlink()
        os.kill(serving.pid, signal.SIGTERM)
        assert serving.ended() == Exit.OK
    finally:
        serving.close()
    assert home.key_archive.read_bytes() == kept


def test_a_daemon_that_lost_its_folder_leaves_what_its_successor_is_found_by(
    daemon: Foreground, home: DaemonHome
) -> None:
    home.root.rename(home.root.with_name("moved"))
    home.root.mkdir(mode=0o700)
    successors = (home.socket, home.port_file)
    for path in successors:
        path.write_text("of another daemon")
    assert daemon.ended() == Exit.WORKSPACE_UNSAFE
    assert [path.read_text() for path in successors] == ["of another daemon"] * 2


@pytest.mark.parametrize("closed", ["outbox.db", "inbox.db-wal", ".", "logs", "logs/daemon.log", "local-token"])
def test_h2_h10_a_daemon_that_cannot_write_refuses_to_start(closed: str) -> None:
    with ordinary_user() as user:
        assert user.parley("daemon", "up")[0] == Exit.OK
        assert user.parley("daemon", "down")[0] == Exit.OK
        path: Path = user.folder / "daemon" / closed
        if not path.exists():
            path.touch()
            os.chown(path, user.uid, user.uid)
        path.chmod(0o500 if path.is_dir() else 0o000)
        code, said = user.parley("daemon", "up")
        assert (code, said.get("code")) == (Exit.WORKSPACE_UNSAFE, "WORKSPACE_UNSAFE")
        path.chmod(0o700 if path.is_dir() else 0o600)
