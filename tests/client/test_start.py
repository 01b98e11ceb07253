"""Starting a hub on request: one hub however many ask at once, in a new folder too, and the examples that do so."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.client import Client, FileCursor, connect, connect_async
from parley.core import errors
from tests.client.hubs import DEADLINE_SECONDS

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose hub, if one was started in it, is stopped at the end."""
    yield tmp_path
    # -P: the folder may hold files that must not run, and may still be the current one.
    down = [sys.executable, "-P", "-m", "parley", "down", "--workspace", str(tmp_path), "--json"]
    subprocess.run(down, timeout=DEADLINE_SECONDS, capture_output=True, check=True)


def test_four_clients_that_ask_at_once_share_one_hub_in_a_new_workspace(folder: Path) -> None:
    clients: list[Client] = []
    together = threading.Barrier(4)

    def ask() -> None:
        together.wait(DEADLINE_SECONDS)
        clients.append(connect(folder, start=True))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert len(clients) == 4
    assert len({client.health().instance_id for client in clients}) == 1
    assert len({client.health().pid for client in clients}) == 1
    for client in clients:
        client.close()


async def test_a_hub_is_started_where_one_was_killed_and_a_running_one_is_used(folder: Path) -> None:
    async with await connect_async(folder, start=True) as first, await connect_async(folder, start=True) as second:
        health = await first.health()
        assert (await second.health()).instance_id == health.instance_id
    stop = await asyncio.create_subprocess_exec("kill", "-9", str(health.pid))
    assert await stop.wait() == 0
    async with await connect_async(folder, start=True) as client:
        assert (await client.health()).instance_id != health.instance_id


def test_a_start_runs_no_code_of_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("parley.py", "msgspec.py", "typer.py"):
        (folder / name).write_text("raise SystemExit('code of the current folder was run')\n")
    monkeypatch.chdir(folder)
    with connect(folder, start=True) as client:
        assert client.health().status == "ok"


def test_a_start_that_cannot_work_tells_the_reason(folder: Path) -> None:
    (folder / "parley.toml").write_text("[hub]\nprot = 1\n")
    with pytest.raises(errors.StartupFailed, match="prot"):
        connect(folder, start=True)


def test_a_hub_cannot_be_started_at_a_url() -> None:
    with pytest.raises(errors.InvalidInput):
        connect(url="http://127.0.0.1:1", start=True)


def run_example(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, timeout=DEADLINE_SECONDS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_run_and_the_second_run_prints_only_what_is_new(folder: Path, tmp_path: Path) -> None:
    talk = ["builder: The build is green, please review.", "reviewer: Looks good to me."]
    assert run_example("post_and_listen.py", str(folder)).splitlines()[-2:] == talk
    cursor = str(tmp_path / "agent.cursor")
    first = run_example("resume_from_cursor.py", cursor, str(folder)).splitlines()
    assert [line.split(" ", 1)[1] for line in first] == talk
    assert run_example("resume_from_cursor.py", cursor, str(folder)) == ""
    with connect(folder, sender="alice") as client:
        topic_id = client.page_messages(channel_id=client.list_channels().channels[0].id).messages[0].topic_id
        sent = client.send_message(topic_id, "One more thing.")
    assert run_example("resume_from_cursor.py", cursor, str(folder)) == f"{sent.event_id} alice: One more thing.\n"
    saved = FileCursor(cursor).load()
    assert saved is not None
    assert saved.event_id == sent.event_id
