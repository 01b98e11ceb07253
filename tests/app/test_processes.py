"""Processes by their kernel handle."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from parley.app.processes import ProcessHandle, pid_is_alive

SLEEPER = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture(params=["pidfd", "polling"])
def _kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is how it goes where the kernel has no handles for processes."""
    if request.param == "polling":
        monkeypatch.delattr("os.pidfd_open")


@pytest.mark.usefixtures("_kind")
def test_a_process_is_waited_for_and_signalled(sleeper: "subprocess.Popen[bytes]") -> None:
    with ProcessHandle(sleeper.pid) as handle:
        assert not handle.wait(0)
        handle.send(signal.SIGTERM)
        assert sleeper.wait(30) == -signal.SIGTERM
        assert handle.wait(30)
        handle.send(signal.SIGKILL)  # nobody is left, which is no error


@pytest.mark.usefixtures("_kind")
def test_a_number_without_a_process_is_told(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.kill()
    sleeper.wait(30)
    assert not pid_is_alive(sleeper.pid)
    with pytest.raises(ProcessLookupError):
        ProcessHandle(sleeper.pid)


def test_a_process_of_somebody_else_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)
    assert pid_is_alive(1)
