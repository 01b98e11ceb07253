"""A private server process: started, waited for, measured and stopped.

CPU time is read from the process's own clock, which the kernel keeps in nanoseconds and which includes threads that
have ended; ``/proc/<pid>/stat`` tells the same sum in steps of ten milliseconds.
"""

import collections
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from parley.sandbox.keeper import living_children

STOP_SECONDS: Final = 20.0
_CPU_CLOCK_OF_PROCESS: Final = 2
_LAST_LINES: Final = 20


class NotReady(RuntimeError):
    """The server ended before it said that it serves."""


class Process:
    """A running process, as the kernel sees it."""

    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far."""
        return time.clock_gettime((~self.pid << 3) | _CPU_CLOCK_OF_PROCESS)

    def descendants(self) -> list["Process"]:
        """The processes that it started, theirs, and so on, which run now."""
        found: list[Process] = []
        for pid in living_children(self.pid):
            child = Process()
            child.pid = pid
            found += [child, *child.descendants()]
        return found

    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def peak_resident_bytes(self) -> int:
        """The most of its memory that was in RAM at any moment so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def open_files(self) -> int:
        """Descriptors that the process holds."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - only the number is wanted

    def kill(self) -> None:
        """Ends the process at once, as a crash would."""
        raise NotImplementedError

    def stop(self) -> int:
        """Asks the process to end and returns its exit code; kills it if it does not end."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ServerProcess(Process):
    """A server started by a command."""

    def __init__(
        self, argv: Sequence[str], *, ready: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts the process and returns once a line of its output contains ``ready``."""
        self._popen = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._popen.pid
        self.output: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._wait_for(ready)
        self._drain = threading.Thread(target=self._read_on, daemon=True)
        self._drain.start()

    def kill(self) -> None:
        self._popen.kill()
        self._finish()

    def stop(self) -> int:
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        return self._finish()

    def _wait_for(self, ready: str) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self.output.append(line)
            if ready in line:
                return
        raise NotReady(f"{self._popen.args} ended with code {self._finish()}:\n{''.join(self.output)}")

    def _read_on(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self.output.append(line)

    def _finish(self) -> int:
        code = self._popen.wait()
        if hasattr(self, "_drain"):
            self._drain.join()
        if self._popen.stdout is not None:
            self._popen.stdout.close()
        return code


def find_command(name: str) -> str | None:
    """The command's path, looked for beside the interpreter first, where wheels put theirs."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)
