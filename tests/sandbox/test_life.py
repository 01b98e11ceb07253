"""Nothing that was started in a jail outlives it, and a jail does not outlive its owner."""

import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from parley.sandbox import Jail, JailError
from parley.sandbox.view import interpreter
from tests.sandbox.conftest import SECONDS, Owner, patient
from tests.sandbox.ordinary import REPOSITORY

pytestmark = pytest.mark.usefixtures("sandbox")
HIDE = """
import os, subprocess, sys
def hide(marker):
    '''Starts a process that no session, group, pipe or parent holds.'''
    code = "import ctypes, signal; ctypes.CDLL(None).prctl(1, 0); print(1, flush=True); signal.pause()"
    child = subprocess.Popen([sys.executable, '-I', '-S', '-c', code, marker], stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    child.stdout.readline()
hide(sys.argv[1])
"""
THEN_HANG = "import ctypes, signal; ctypes.CDLL(None).prctl(1, 0); print('ready', flush=True); signal.pause()"


@pytest.fixture
def marker() -> str:
    return f"marked-{secrets.token_hex(8)}"


def marked(marker: str) -> list[int]:
    """The processes of this machine that have the marker as an argument."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if marker.encode() in arguments:
                found.append(int(folder.name))
    return found


def children(pid: int) -> list[int]:
    """The processes that the main thread of another has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_the_end(descriptors: list[int]) -> None:
    """Waits until every one of these processes is gone."""
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], SECONDS)[0], "a process is left"


@contextmanager
def watched(pids: list[int]) -> Iterator[list[int]]:
    with ExitStack() as stack:
        descriptors = [os.pidfd_open(pid) for pid in pids]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        yield descriptors


def python(code: str, *arguments: str) -> list[str]:
    return [str(interpreter()), "-I", "-S", "-c", code, *arguments]


def test_what_hides_in_a_session_of_its_own_ends_with_the_deadline(marker: str) -> None:
    with Jail(python(HIDE + THEN_HANG, marker), patient()) as jail:
        assert jail.receive_line(SECONDS) == b"ready"
        assert len(marked(marker)) == 2
        with pytest.raises(JailError) as raised:
            jail.receive_line(0.1)
        assert marked(marker) == []
    assert raised.value.reason == "timeout"


def test_what_hides_ends_with_the_command(owner: Owner, marker: str) -> None:
    answer = owner.run(f"sys.argv[1] = {marker!r}\n" + HIDE + "print('bye')")
    assert answer["stdout"] == "bye\n"
    assert marked(marker) == []


def test_without_the_sandbox_it_would_live_on(marker: str) -> None:
    subprocess.run(python(HIDE + "print('bye')", marker), check=True, timeout=SECONDS)
    [left] = marked(marker)
    os.kill(left, signal.SIGKILL)


def test_closing_a_jail_leaves_nothing(marker: str) -> None:
    with Jail(python(HIDE + THEN_HANG, marker), patient()) as jail:
        assert jail.receive_line(SECONDS) == b"ready"
        assert len(marked(marker)) == 2
    assert marked(marker) == []


def test_a_jail_dies_with_its_owner_even_if_the_command_does_not_want_to(owner: Owner, marker: str) -> None:
    """kill -9 of the owner, in mid-run; owned by root and by an ordinary user."""
    module = ["tests.sandbox.owner_of_one", HIDE + THEN_HANG, marker]
    ordinary = ["tests.sandbox.ordinary"] if os.getuid() == 0 and owner.uid != 0 else []
    process = subprocess.Popen(
        [sys.executable, "-m", *ordinary, *module], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pids = [pid for pid in marked(marker) if pid != process.pid]
        keepers = children(process.pid)
        assert len(pids) == 2
        assert len(keepers) == 1
        with watched([*pids, *keepers]) as descriptors:
            process.kill()
            wait_for_the_end(descriptors)


def test_a_keeper_that_is_killed_takes_its_jail_along(marker: str) -> None:
    with Jail(python(HIDE + THEN_HANG, marker), patient()) as jail:
        jail.receive_line(SECONDS)
        [keeper] = [
            pid for pid in children(os.getpid()) if b"sandbox.inside" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        with watched(marked(marker)) as descriptors:
            os.kill(keeper, signal.SIGKILL)
            wait_for_the_end(descriptors)


def test_process_1_of_a_jail_cannot_be_ended_from_inside(owner: Owner) -> None:
    code = """
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP):
    try:
        os.kill(1, number)
    except PermissionError:
        pass
print(os.getpid(), os.getppid())
"""
    assert owner.run(code)["stdout"] == "2 1\n"


def test_a_process_in_a_jail_holds_no_privilege(marker: str) -> None:
    with Jail(python(THEN_HANG, marker), patient()) as jail:
        jail.receive_line(SECONDS)
        [pid] = marked(marker)
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
        )
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == 1000
        terminal = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[4]
    assert terminal == "0"
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "0" not in status["Uid"].split()
    assert status["Groups"].strip() in ("", status["Gid"].split()[0])
