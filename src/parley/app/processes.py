"""Processes by their kernel handle, so that a signal never reaches a stranger who was given the same number.

A handle is opened first and the lock is looked at again afterwards: if the same process still holds it, the handle is
that process's. Where the kernel has no such handle (macOS), the number itself is used and its end is polled for.
"""

import os
import select
import signal
import time
from typing import Final, Self

_POLL_SECONDS: Final = 0.02


class ProcessHandle:
    """One running process. Raises ``ProcessLookupError`` when there is none with this number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        if self._descriptor is None:
            os.kill(pid, 0)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; one that has ended takes none."""
        try:
            if self._descriptor is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return

    def wait(self, seconds: float) -> bool:
        """Whether the process has ended within this time. It need not be a child of ours."""
        if self._descriptor is not None:
            return bool(select.select([self._descriptor], [], [], seconds)[0])
        deadline = time.monotonic() + seconds
        while pid_is_alive(self.pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def pid_is_alive(pid: int) -> bool:
    """Whether a process with this number exists, whoever owns it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
