"""The instance lock, with real processes: one winner at a time, freed by any death of its holder."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.core.errors import WorkspaceUnsafe, WriterLockHeld
from parley.core.exits import Exit
from parley.core.instance_lock import Holder, InstanceLock, probe

DEADLINE_SECONDS = 30.0
HOLDER = {"pid": os.getpid(), "instance_id": "inst-1", "started_at": "2026-01-01T00:00:00.000Z"}

CONTENDER = """
import os, sys
from pathlib import Path
from parley.core.errors import WriterLockHeld
from parley.core.instance_lock import InstanceLock
print("ready", flush=True)
sys.stdin.readline()
lock = InstanceLock(Path(sys.argv[1]))
try:
    lock.acquire({"pid": os.getpid(), "instance_id": "child", "started_at": "2026-01-01T00:00:00.000Z"})
except WriterLockHeld as error:
    print("held", error.details["pid"], flush=True)
else:
    print("won", os.getpid(), flush=True)
sys.stdin.readline()
"""

Spawn = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "hub.lock"


@pytest.fixture
def spawn(path: Path) -> Iterator[Spawn]:
    """Starts a contender that waits for a line before it tries, and for another before it exits."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", CONTENDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(DEADLINE_SECONDS)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], DEADLINE_SECONDS)
    assert readable, "the process said nothing in time"
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("round_number", range(3))
def test_of_six_processes_that_start_at_once_exactly_one_wins(spawn: Spawn, round_number: int) -> None:
    contenders = [spawn() for _ in range(6)]
    assert [heard(process) for process in contenders] == ["ready"] * 6
    for process in contenders:
        tell(process)
    answers = [heard(process) for process in contenders]
    assert sorted(answer.split()[0] for answer in answers) == ["held"] * 5 + ["won"]


def test_the_refusal_names_the_first_process_and_exits_with_10(path: Path, spawn: Spawn) -> None:
    first = spawn()
    heard(first)
    tell(first)
    assert heard(first) == f"won {first.pid}"
    with pytest.raises(WriterLockHeld) as refused:
        InstanceLock(path).acquire(HOLDER)
    assert refused.value.details == {
        "pid": first.pid,
        "instance_id": "child",
        "started_at": "2026-01-01T00:00:00.000Z",
        "path": str(path),
    }
    assert f"process {first.pid} since 2026-01-01T00:00:00.000Z" in str(refused.value)
    assert refused.value.exit_code == Exit.ALREADY_RUNNING == 10


def test_kill_9_of_the_holder_frees_the_lock_though_its_name_stays_in_the_file(path: Path, spawn: Spawn) -> None:
    first = spawn()
    heard(first)
    tell(first)
    heard(first)
    assert probe(path) == Holder(first.pid, "child", "2026-01-01T00:00:00.000Z")
    first.send_signal(signal.SIGKILL)
    first.wait(DEADLINE_SECONDS)
    assert str(first.pid) in path.read_text()
    assert probe(path) is None
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        assert probe(path) == Holder(os.getpid(), "inst-1", "2026-01-01T00:00:00.000Z")


def test_a_started_program_does_not_inherit_the_lock(path: Path) -> None:
    lock = InstanceLock(path)
    lock.acquire(HOLDER)
    # close_fds=False leaves it to close-on-exec alone.
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.readline()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        lock.release()
        InstanceLock(path).acquire(HOLDER)
    finally:
        child.communicate(b"\n", timeout=DEADLINE_SECONDS)


def test_a_forked_child_that_releases_leaves_its_parents_lock_alone(path: Path) -> None:
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0 if not lock.held else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert probe(path) == Holder(os.getpid(), "inst-1", "2026-01-01T00:00:00.000Z")


def test_release_lets_the_next_one_in_and_keeps_the_file(path: Path) -> None:
    lock = InstanceLock(path)
    lock.acquire(HOLDER)
    inode = path.stat().st_ino
    lock.release()
    assert not lock.held
    assert path.read_bytes() == b""
    lock.acquire(HOLDER)
    assert path.stat().st_ino == inode
    lock.release()
    lock.release()


def test_the_lock_file_is_private_from_the_start(path: Path) -> None:
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_one_object_takes_the_lock_once(path: Path) -> None:
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        with pytest.raises(RuntimeError):
            lock.acquire(HOLDER)
        assert lock.held


@pytest.mark.parametrize("by_another_file", [True, False])
def test_a_lock_file_that_is_replaced_between_opening_and_locking_is_locked_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch, by_another_file: bool
) -> None:
    real_flock = fcntl.flock
    replacements = iter([path.with_suffix(".old")])

    def replace_then_lock(descriptor: int, operation: int) -> None:
        for old in replacements:
            path.rename(old)
            if by_another_file:
                path.touch()
        real_flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", replace_then_lock)
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        assert probe(path) == Holder(os.getpid(), "inst-1", "2026-01-01T00:00:00.000Z")
        assert probe(path.with_suffix(".old")) is None


def test_an_onlooker_does_not_make_a_start_fail(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    onlooker = os.open(path, os.O_RDONLY)
    fcntl.flock(onlooker, fcntl.LOCK_SH)
    lock = InstanceLock(path)
    starter = threading.Thread(target=lock.acquire, args=(HOLDER,))
    starter.start()
    os.close(onlooker)
    starter.join(DEADLINE_SECONDS)
    assert lock.held
    lock.release()


def test_an_onlooker_that_never_leaves_is_reported_as_a_nameless_holder(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    onlooker = os.open(path, os.O_RDONLY)
    fcntl.flock(onlooker, fcntl.LOCK_SH)
    with pytest.raises(WriterLockHeld, match="held by another process") as refused:
        InstanceLock(path).acquire(HOLDER)
    assert refused.value.details["pid"] is None
    os.close(onlooker)


def test_a_holder_that_has_not_written_its_name_yet_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # The first holder writes while the second waits, which without a wait would never happen.
    monkeypatch.setattr("parley.core.instance_lock.time.sleep", lambda _: os.pwrite(descriptor, b'{"pid":4711}', 0))
    with pytest.raises(WriterLockHeld) as refused:
        InstanceLock(path).acquire(HOLDER)
    os.close(descriptor)
    assert refused.value.details["pid"] == 4711


def test_a_probe_of_a_missing_file_finds_nobody_and_makes_nothing(path: Path) -> None:
    assert probe(path) is None
    assert not path.parent.exists()


def test_a_probe_works_on_a_file_that_may_only_be_read(path: Path) -> None:
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        path.chmod(0o400)
        assert probe(path) == Holder(os.getpid(), "inst-1", "2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize("content", [b"", b"not json", b'{"pid": "text"}', b"\xff\xfe"])
def test_a_holder_that_wrote_nothing_readable_is_held_by_somebody_unknown(path: Path, content: bytes) -> None:
    with InstanceLock(path) as lock:
        lock.acquire(HOLDER)
        path.write_bytes(content)
        assert probe(path) == Holder()
        with pytest.raises(WriterLockHeld, match=r"held by another process$"):
            InstanceLock(path).acquire(HOLDER)


def test_a_link_in_place_of_the_lock_file_is_refused(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    (tmp_path / "elsewhere").touch()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceUnsafe, match="cannot be used"):
        InstanceLock(path).acquire(HOLDER)
