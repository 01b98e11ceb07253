"""A broker and its file: nobody else writes it, and none of what it has vanishes unnoticed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from parley.app.broker_running import running, stop
from parley.broker.instances import FOLDER
from parley.core.exits import Exit
from tests.broker.process import SECONDS, Process, broker
from tests.hub.lifecycle.processes import until
from tests.ordinary import ordinary_user


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Process]:
    with broker(tmp_path / "broker") as process:
        yield process
    stop(tmp_path / "broker", None, SECONDS)


def make_mesh(process: Process, slug: str) -> httpx.Response:
    return httpx.post(
        f"{process.http}/v1/meshes",
        json={"slug": slug, "name": slug},
        headers={"Authorization": f"Bearer {process.token}"},
        timeout=SECONDS,
        trust_env=False,
    )


def log_of(process: Process) -> list[dict[str, Any]]:
    text = process.folder.with_name(f"{process.folder.name}.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"ts"')]


def warnings_about(process: Process, path: Path) -> int:
    return sum(line["msg"] == "file_gone" and line["path"] == str(path) for line in log_of(process))


@pytest.mark.parametrize("gone", ["lock", "lock and announcement"])
def test_h1_a_removed_lock_file_lets_no_second_broker_in(serving: Process, gone: str) -> None:
    """The first one is stopped, so that it cannot notice: it is announced, and the file itself is locked."""
    pid = serving.popen.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        (serving.folder / "broker.db.lock").unlink()
        if gone == "lock and announcement":
            shutil.rmtree(serving.folder / FOLDER)
        argv = [sys.executable, "-P", "-m", "parley", "broker", "up", "--detach", "--json", "--port", "0"]
        second = subprocess.run([*argv, "--folder", serving.folder], capture_output=True, timeout=SECONDS, check=False)
    finally:
        os.kill(pid, signal.SIGCONT)
    said = json.loads(second.stdout or second.stderr)
    assert (second.returncode, said.get("code")) == (Exit.ALREADY_RUNNING, "WRITER_LOCK_HELD")
    assert said["details"]["pid"] == pid
    assert serving.popen.wait(SECONDS) == Exit.WORKSPACE_UNSAFE


@pytest.mark.parametrize("lost", ["broker.db", "broker.db-wal"])
def test_h3_no_mesh_is_made_when_the_file_is_lost(serving: Process, lost: str) -> None:
    assert make_mesh(serving, "kept").status_code == 201
    (serving.folder / lost).unlink()
    try:
        answer = make_mesh(serving, "lost")
    except httpx.TransportError:  # it found out before anybody asked
        answer = None
    assert answer is None or (answer.status_code, answer.json().get("code")) == (503, "FILES_LOST"), answer.text
    assert serving.popen.wait(SECONDS) == Exit.WORKSPACE_UNSAFE
    (told,) = [line for line in log_of(serving) if line["msg"] == "files_lost"]
    assert told["path"] == str(serving.folder / lost)
    if lost == "broker.db-wal":
        with broker(serving.folder) as again:
            headers = {"Authorization": f"Bearer {again.token}"}
            found = httpx.get(f"{again.http}/v1/meshes", headers=headers, timeout=SECONDS, trust_env=False).json()
            assert "kept" in [mesh["slug"] for mesh in found["meshes"]]


@pytest.mark.parametrize("emptied", [False, True])
def test_h3_a_broker_whose_file_is_gone_does_not_begin_anew(tmp_path: Path, emptied: bool) -> None:
    folder = tmp_path / "broker"
    with broker(folder) as process:
        kept = make_mesh(process, "kept").json()["mesh_id"]
        assert process.stop() == Exit.OK
    store, copy = folder / "broker.db", tmp_path / "copy"
    assert parley("broker", "backup", copy, "--folder", folder)[0] == Exit.OK
    store.unlink()
    if emptied:
        store.touch()
    code, said = parley("broker", "up", "--detach", "--port", "0", "--folder", folder)
    stop(folder, None, SECONDS)
    assert (code, said.get("code")) == (Exit.CORRUPT, "DATABASE_CORRUPT")
    assert f"{store}.id" in said["details"]["marks"]
    assert parley("broker", "restore", copy, "--folder", folder)[0] == Exit.OK
    with broker(folder) as again:
        assert make_mesh(again, "kept").json()["mesh_id"] == kept


def test_h3_a_file_that_lies_elsewhere_is_missed_as_well(tmp_path: Path) -> None:
    folder, store = tmp_path / "broker", tmp_path / "elsewhere" / "x.db"
    store.parent.mkdir()
    with broker(folder, "--store", str(store)) as process:
        assert process.stop() == Exit.OK
    store.unlink()
    code, said = parley("broker", "up", "--detach", "--port", "0", "--folder", folder, "--store", store)
    stop(folder, None, SECONDS)
    assert (code, said.get("code")) == (Exit.CORRUPT, "DATABASE_CORRUPT")


def test_a_first_file_beside_a_token_or_another_file_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir(mode=0o700)
    (folder / "creation-token").write_text("a" * 64)
    with broker(folder) as process:
        assert process.token == "a" * 64
        assert process.stop() == Exit.OK
    with broker(folder, "--store", str(folder / "second.db")) as second:
        assert second.stop() == Exit.OK


def parley(*words: str | Path) -> tuple[int, dict[str, Any]]:
    """A command's exit code, and what it said."""
    argv = [sys.executable, "-P", "-m", "parley", *map(str, words), "--json"]
    done = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=False)
    return done.returncode, json.loads(done.stdout or done.stderr)


def test_h4_the_announcement_and_the_creation_token_are_written_again_with_one_warning_each(serving: Process) -> None:
    token = serving.token
    (announcement,) = (serving.folder / FOLDER).iterdir()
    kept = [serving.folder / "creation-token", announcement]
    for path in kept:
        path.unlink()
    until(lambda: all(path.exists() for path in kept))
    until(lambda: [each.pid for each in running(serving.folder)] == [serving.popen.pid])
    assert serving.token == token
    announcement.unlink()
    until(announcement.exists)
    until(lambda: warnings_about(serving, announcement) == 2)
    assert warnings_about(serving, kept[0]) == 1
    kept[0].write_text("")
    until(lambda: kept[0].stat().st_size > 0)
    assert serving.token == token
    assert serving.stop() == Exit.OK
    assert not announcement.exists()


@pytest.mark.parametrize("closed", ["broker.db", ".", "broker.log", "creation-token"])
def test_h2_h10_a_broker_that_cannot_write_refuses_to_start(closed: str) -> None:
    with ordinary_user() as user:
        where = ("--folder", str(user.folder / "broker"))
        assert user.parley("broker", "up", "--detach", "--port", "0", *where)[0] == Exit.OK
        assert user.parley("broker", "down", *where)[0] == Exit.OK
        path = user.folder / "broker" / closed
        path.chmod(0o500 if path.is_dir() else 0o000)
        for words in (("--detach",), () if closed != "broker.log" else ("--detach",)):
            code, said = user.parley("broker", "up", "--port", "0", *words, *where)
            assert (code, said.get("code")) == (Exit.WORKSPACE_UNSAFE, "WORKSPACE_UNSAFE"), words
        path.chmod(0o700 if path.is_dir() else 0o600)
