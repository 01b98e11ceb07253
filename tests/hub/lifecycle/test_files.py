"""A hub and its files: nobody else writes them, and none of them vanishes unnoticed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from parley.core.errors import FilesLost
from parley.core.exits import Exit
from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from parley.workspace.layout import Workspace
from tests.hub.hubs import rows
from tests.hub.lifecycle.here import hub_of, run_here, stop_at_once
from tests.hub.lifecycle.processes import DEADLINE_SECONDS, HubProcess, created, make_topic, mode, post, until
from tests.ordinary import Ordinary, ordinary_user
from tests.workspace.databases import make_agentlip


@pytest.fixture
def user() -> Iterator[Ordinary]:
    with ordinary_user() as found:
        yield found
        found.parley("down", "--workspace", str(found.folder))


def parley(*words: str) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-P", "-m", "parley", *words, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2 * DEADLINE_SECONDS, check=False)
    return done.returncode, json.loads(done.stdout or done.stderr.splitlines()[-1])


@pytest.fixture
def second(hub: HubProcess) -> Iterator[Callable[[], tuple[int, dict[str, Any]]]]:
    """Starts one more hub in the background; whatever serves at the end is stopped."""
    yield lambda: parley("up", "--detach", "--workspace", str(hub.root))
    parley("down", "--workspace", str(hub.root))


def answers(server: dict[str, Any]) -> bool:
    try:
        found = httpx.get(f"http://127.0.0.1:{server['port']}/health", timeout=DEADLINE_SECONDS)
    except httpx.TransportError:
        return False
    return found.json()["instance_id"] == server["instance_id"]


def test_h1_a_removed_lock_file_lets_no_second_hub_in(
    hub: HubProcess, second: Callable[[], tuple[int, dict[str, Any]]]
) -> None:
    """The first one is stopped, so that it can neither notice nor answer: the database itself is locked."""
    hub.start()
    pid = hub.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        hub.workspace.lock.unlink()
        code, said = second()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (code, said.get("code")) == (Exit.ALREADY_RUNNING, "WRITER_LOCK_HELD")
    assert said["details"]["pid"] == pid


def test_h1_of_two_hubs_one_serves_and_the_one_without_its_lock_ends(
    hub: HubProcess, second: Callable[[], tuple[int, dict[str, Any]]]
) -> None:
    hub.start()
    first = hub.server
    hub.workspace.lock.unlink()
    code, said = second()
    assert code in (Exit.ALREADY_RUNNING, Exit.OK)
    if code == Exit.ALREADY_RUNNING:
        assert said["details"]["pid"] == first["pid"]
    else:
        assert not answers(first), "two hubs serve one database"
    assert hub.ended() == Exit.WORKSPACE_UNSAFE
    (told,) = [line for line in hub.log if line["msg"] == "files_lost"]
    assert told["path"] == str(hub.workspace.lock)


def test_h1_a_start_asks_the_hub_that_is_announced_though_every_lock_is_gone(
    hub: HubProcess, second: Callable[[], tuple[int, dict[str, Any]]]
) -> None:
    """Everything but ``server.json`` is gone. Either the hub still answers, or it has ended by itself."""
    hub.start()
    first = hub.server
    for path in (hub.workspace.lock, hub.workspace.db):
        path.unlink()
    code, said = second()
    assert code in (Exit.ALREADY_RUNNING, Exit.CORRUPT)
    assert said["details"]["pid"] == first["pid"] if code == Exit.ALREADY_RUNNING else not answers(first)
    assert hub.ended() == Exit.WORKSPACE_UNSAFE


def test_a_copy_of_a_workspace_starts_while_the_original_is_served(hub: HubProcess, tmp_path: Path) -> None:
    hub.start()
    shutil.copytree(hub.root, tmp_path / "copy")
    code, said = parley("up", "--detach", "--workspace", str(tmp_path / "copy"))
    try:
        assert (code, said["status"]) == (Exit.OK, "running")
    finally:
        parley("down", "--workspace", str(tmp_path / "copy"))


def test_h2_a_database_that_cannot_be_written_refuses_the_start_and_doctor_names_it(user: Ordinary) -> None:
    place = ("--workspace", str(user.folder))
    assert user.parley("init", *place)[0] == Exit.OK
    database = user.folder / ".parley" / "db.sqlite3"
    database.chmod(0o444)
    code, said = user.parley("up", "--detach", *place)
    assert (code, said.get("code")) == (Exit.WORKSPACE_UNSAFE, "WORKSPACE_UNSAFE")
    assert str(database) in said["error"]
    code, found = user.parley("doctor", *place)
    assert code == Exit.ERROR
    (told,) = [check for check in found["checks"] if check["name"] == "writable"]
    assert (told["status"], database.name in told["message"]) == ("error", True)
    assert user.parley("doctor", "--repair", *place)[0] == Exit.OK
    assert user.parley("up", "--detach", *place)[0] == Exit.OK


@pytest.mark.parametrize(
    "closed",
    [".parley", ".parley/locks", ".parley/spool", ".parley/logs", ".parley/logs/hub.log", ".parley/token"],
)
def test_h10_a_folder_that_cannot_be_written_refuses_the_start_with_25(user: Ordinary, closed: str) -> None:
    place = ("--workspace", str(user.folder))
    assert user.parley("up", "--detach", *place)[0] == Exit.OK
    assert user.parley("down", *place)[0] == Exit.OK
    path = user.folder / closed
    path.chmod(0o555 if path.is_dir() else 0o000 if path.name == "token" else 0o444)
    for words in (("up", "--detach"), ("up",)):
        code, said = user.parley(*words, *place)
        assert (code, said.get("code")) == (Exit.WORKSPACE_UNSAFE, "WORKSPACE_UNSAFE"), words
        assert closed in said["error"]


def remove_database(workspace: Workspace) -> None:
    for path in workspace.state.glob("db.sqlite3*"):
        path.unlink()


def replace_database(workspace: Workspace) -> None:
    copy = workspace.db.with_name("copy")
    shutil.copyfile(workspace.db, copy)
    copy.replace(workspace.db)


def remove_log(workspace: Workspace) -> None:
    workspace.wal.unlink()


def remove_index(workspace: Workspace) -> None:
    workspace.db.with_name("db.sqlite3-shm").unlink()


def cut_database(workspace: Workspace) -> None:
    os.truncate(workspace.db, 4096)


def cut_log(workspace: Workspace) -> None:
    os.truncate(workspace.wal, workspace.wal.stat().st_size // 2)


def empty_log(workspace: Workspace) -> None:
    os.truncate(workspace.wal, 0)


@pytest.mark.parametrize("destroy", [remove_database, replace_database, remove_log, cut_database, cut_log, empty_log])
def test_h3_no_commit_is_acknowledged_when_a_file_of_the_database_is_lost(
    hub: HubProcess, destroy: Callable[[Workspace], None]
) -> None:
    hub.start()
    with hub.client() as client:
        topic = make_topic(client)
        for number in range(20):
            created(post(client, topic, f"kept {number} {'x' * 4096}"))
        if destroy is cut_database:
            parley("doctor", "--checkpoint", "--workspace", str(hub.root))
            created(post(client, topic, "after the checkpoint"))
        destroy(hub.workspace)
        try:
            answer = post(client, topic, "lost")
        except httpx.TransportError:  # it found out before anybody asked
            answer = None
    assert answer is None or (answer.status_code, answer.json().get("code")) in (
        (503, "FILES_LOST"),
        (503, "SHUTTING_DOWN"),
        (503, "SERVICE_UNAVAILABLE"),  # SQLite itself met the hole
        (503, "DATABASE_CORRUPT"),
    ), answer.text
    assert hub.ended() in (Exit.WORKSPACE_UNSAFE, Exit.CORRUPT)
    assert [line for line in hub.log if line["msg"] in ("files_lost", "database_corrupt")]


@pytest.mark.parametrize("destroy", [cut_log, empty_log])
def test_h3_what_is_in_the_database_outlives_a_log_that_is_cut_short(
    hub: HubProcess, destroy: Callable[[Workspace], None]
) -> None:
    """SQLite would move the hole that the next commit leaves in the log into the database when it closes."""
    hub.start()
    with hub.client() as client:
        topic = make_topic(client)
        kept = {created(post(client, topic, f"kept {number} {'x' * 4096}"))["message"]["id"] for number in range(20)}
        parley("doctor", "--checkpoint", "--workspace", str(hub.root))
        for number in range(20):
            created(post(client, topic, f"in the log {number} {'x' * 4096}"))
        destroy(hub.workspace)
        with contextlib.suppress(httpx.TransportError):
            post(client, topic, "lost")
    hub.ended()
    hub.start()
    assert kept <= {found for (found,) in rows(hub.workspace, "SELECT id FROM messages")}
    assert rows(hub.workspace, "PRAGMA integrity_check") == [("ok",)]


def test_h3_a_hub_whose_index_is_removed_ends_within_seconds(hub: HubProcess) -> None:
    """The index holds no commit, so it is looked at once a second and not with each of them."""
    hub.start()
    with hub.client() as client:
        created(post(client, make_topic(client), "kept"))
    remove_index(hub.workspace)
    assert hub.ended() == Exit.WORKSPACE_UNSAFE
    assert [line for line in hub.log if line["msg"] == "files_lost"]


@pytest.mark.parametrize("destroy", [remove_log, remove_index])
def test_h3_what_was_acknowledged_before_the_log_was_removed_is_kept(
    hub: HubProcess, destroy: Callable[[Workspace], None]
) -> None:
    """The process still has the log open, and moves it into the database at its end."""
    hub.start()
    with hub.client() as client:
        topic = make_topic(client)
        for number in range(5):
            created(post(client, topic, f"kept {number}"))
        destroy(hub.workspace)
    until(lambda: any(line["msg"] == "files_lost" for line in hub.log))
    assert hub.ended() == Exit.WORKSPACE_UNSAFE
    assert rows(hub.workspace, "SELECT content_raw FROM messages ORDER BY seq") == [(f"kept {n}",) for n in range(5)]
    hub.start()
    assert hub.stop() == Exit.OK


def warnings_about(hub: HubProcess, path: Path) -> int:
    told = (f"{line.get('path', '')} {line.get('problem', '')}" for line in hub.log if line["level"] == "warning")
    return sum(str(path) in each for each in told)


@pytest.mark.parametrize("adopted", [False, True])
def test_a_hub_that_lost_its_folder_leaves_what_its_successor_wrote(tmp_path: Path, adopted: bool) -> None:
    workspace = make_agentlip(tmp_path, fts=False) if adopted else discovery.create(tmp_path)
    successors = (workspace.server_file, workspace.lock.parent / "writer.lock")

    def replace_folder(_: ServerFile) -> None:
        workspace.state.rename(tmp_path / "moved")
        workspace.lock.parent.mkdir(parents=True)
        for path in successors:
            path.write_text("of another hub")

    assert run_here(tmp_path, replace_folder)[0] == Exit.WORKSPACE_UNSAFE
    assert [path.read_text() for path in successors] == ["of another hub"] * 2


def test_a_hub_that_finds_its_successors_token_does_not_announce_itself_in_its_place(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)

    def replace_folder(_: ServerFile) -> None:
        workspace.state.rename(tmp_path / "moved")
        workspace.lock.parent.mkdir(parents=True)
        workspace.token.write_text(f"{'f' * 64}\n")
        workspace.server_file.write_text("of another hub")
        hub_of(tmp_path).reload_token()  # as the monitor does, before the look at the files finds them gone

    assert run_here(tmp_path, replace_folder)[0] == Exit.WORKSPACE_UNSAFE
    assert workspace.server_file.read_text() == "of another hub"


def test_a_hub_that_lost_its_folder_writes_no_token_into_its_successors(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)

    def replace_folder(_: ServerFile) -> None:
        workspace.state.rename(tmp_path / "moved")
        workspace.lock.parent.mkdir(parents=True)
        hub_of(tmp_path).reload_token()
        with pytest.raises(FilesLost):
            hub_of(tmp_path).rotate_token()

    assert run_here(tmp_path, replace_folder)[0] == Exit.WORKSPACE_UNSAFE
    assert not workspace.token.exists()


def test_h3_a_hub_whose_folder_became_a_file_ends_because_its_files_are_lost(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)

    def replace_folder(_: ServerFile) -> None:
        workspace.state.rename(tmp_path / "moved")
        workspace.state.touch()
        hub_of(tmp_path).monitor.look()  # may come before the look at the files that are held

    assert run_here(tmp_path, replace_folder)[0] == Exit.WORKSPACE_UNSAFE


def test_a_hub_removes_no_announcement_but_its_own(tmp_path: Path) -> None:
    workspace = discovery.create(tmp_path)

    def announce_another(server: ServerFile) -> None:
        another = msgspec.structs.replace(server, instance_id="another")
        workspace.server_file.write_bytes(msgspec.json.encode(another))
        stop_at_once(server)

    assert run_here(tmp_path, announce_another)[0] == Exit.OK
    assert b"another" in workspace.server_file.read_bytes()


def test_h4_server_json_and_the_token_are_written_again_with_one_warning_each(hub: HubProcess) -> None:
    hub.start()
    workspace, server = hub.workspace, hub.server
    for path in (workspace.server_file, workspace.token):
        path.unlink()
    until(lambda: workspace.server_file.exists() and workspace.token.exists())
    assert hub.server == server
    assert workspace.token.read_text().strip() == server["auth_token"]
    assert mode(workspace.server_file) == mode(workspace.token) == 0o600
    for path in (workspace.server_file, workspace.token):
        path.write_text("")
    until(lambda: bool(workspace.server_file.read_text() and workspace.token.read_text()))
    assert workspace.token.read_text().strip() == server["auth_token"]
    assert hub.server == server
    until(lambda: warnings_about(hub, workspace.server_file) == 2)  # one for each time
    until(lambda: warnings_about(hub, workspace.token) == 2)
    assert parley("status", "--workspace", str(hub.root))[0] == Exit.OK
    assert hub.stop() == Exit.OK
