"""A process that does the pipeline's work on command, watched from outside while it does.

Memory is the largest sum of what its processes had in RAM at once: of the driver, which is a Python and its JVM, and of
these with all workers.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.load.process import Process
from parley.sandbox.keeper import living_children

SAMPLE_SECONDS: Final = 0.2
_MIB: Final = 1024 * 1024


class LakeProcess(Process):
    """``bench.load.lake_worker`` with these arguments."""

    def __init__(self, *arguments: str | Path) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "bench.load.lake_worker", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._popen.pid
        self._peak_bytes = 0
        self._driver_peak_bytes = 0
        self._spent: dict[int, float] = {}
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._sample, daemon=True)
        self._watch.start()

    @property
    def peak_mib(self) -> int:
        """The most that all of its processes had in RAM at once."""
        return round(self._peak_bytes / _MIB)

    @property
    def driver_peak_mib(self) -> int:
        """The most that it and its JVM had in RAM at once."""
        return round(self._driver_peak_bytes / _MIB)

    def answer(self) -> dict[str, Any]:
        """What it says next."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._popen.args} ended with code {self._popen.wait()}")
        return json.loads(line)

    def do(self, *command: str | Path) -> dict[str, Any]:
        """Has it do something; the seconds and the CPU time of all its processes."""
        assert self._popen.stdin is not None
        cpu = self._cpu_seconds()
        self._popen.stdin.write(f"{json.dumps([*map(str, command)])}\n")
        self._popen.stdin.flush()
        answer = {**self.answer(), "cpu_seconds": round(self._cpu_seconds() - cpu, 2)}
        print(f"bench: {answer}", file=sys.stderr, flush=True)
        return answer

    def kill(self) -> None:
        self._popen.kill()

    def stop(self) -> int:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        self._popen.stdout.read()
        self._popen.stdout.close()
        self._ended.set()
        self._watch.join()
        return self._popen.wait()

    def _cpu_seconds(self) -> float:
        """Of all processes that were ever seen: Spark ends Python workers that have nothing to do."""
        for process in (self, *self.descendants()):
            self._spent[process.pid] = max(self._spent.get(process.pid, 0.0), _quietly(process.cpu_seconds))
        return sum(tuple(self._spent.values()))  # the thread that watches may see another process meanwhile

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            everyone = [self, *self.descendants()]
            self._cpu_seconds()
            resident = {process.pid: int(_quietly(process.resident_bytes)) for process in everyone}
            self._peak_bytes = max(self._peak_bytes, sum(resident.values()))
            driver = sum(resident.get(pid, 0) for pid in (self.pid, *living_children(self.pid)))
            self._driver_peak_bytes = max(self._driver_peak_bytes, driver)


@contextmanager
def lake_process(*arguments: str | Path) -> Iterator[LakeProcess]:
    """The process, ended in order after the block, and killed if that fails."""
    process = LakeProcess(*arguments)
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        process.stop()


def _quietly(read: Any) -> float:
    try:
        return read()
    except OSError:
        return 0.0
