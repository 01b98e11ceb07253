"""The three pipes of a jail, moved forward together: whoever waits for one must not be blocked by another."""

import os
import select
import time
from typing import IO, Final

from parley.sandbox.policy import JailError

_READ_BYTES: Final = 65_536


class Streams:
    """Reads everything that comes and writes what is pending, until a deadline, within a limit of bytes."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], *, bytes_max: int) -> None:
        self.output = bytearray()
        self.errors = bytearray()
        self.pending = bytearray()
        self._bytes_max = bytes_max
        self._stdin = stdin
        self._writing = False
        self._stdout = stdout.fileno()
        self._reading = {stdout.fileno(): self.output, stderr.fileno(): self.errors}
        self._poll = select.poll()
        os.set_blocking(stdin.fileno(), False)
        for descriptor in self._reading:
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)

    @property
    def output_ended(self) -> bool:
        """Whether nothing more can come on standard output."""
        return self._stdout not in self._reading

    @property
    def all_ended(self) -> bool:
        """Whether nothing more can come at all."""
        return not self._reading

    def write(self, data: bytes) -> None:
        """Writes what fits in the pipe now; the rest is pending. ``BrokenPipeError`` when nobody will read it."""
        self.pending += data
        self._write_some()

    def turn(self, deadline: float) -> None:
        """Waits for one of the pipes and serves it. ``JailError``: the time is over, or too much has come."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise JailError("timeout", "It took longer than it may")
        for descriptor, _ in self._poll.poll(remaining * 1000 + 1):
            if descriptor in self._reading:
                self._read_some(descriptor)
            else:
                self._write_some()

    def _read_some(self, descriptor: int) -> None:
        chunk = os.read(descriptor, _READ_BYTES)
        target = self._reading[descriptor]
        target += chunk
        if not chunk:
            self._poll.unregister(descriptor)
            del self._reading[descriptor]
        elif len(target) > self._bytes_max:
            raise JailError("output", f"It wrote more than {self._bytes_max} bytes")

    def _write_some(self) -> None:
        descriptor = self._stdin.fileno()
        try:
            written = os.write(descriptor, self.pending)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            self._await_writing(descriptor, wanted=False)
            raise
        del self.pending[:written]
        self._await_writing(descriptor, wanted=bool(self.pending))

    def _await_writing(self, descriptor: int, *, wanted: bool) -> None:
        if wanted and not self._writing:
            self._poll.register(descriptor, select.POLLOUT)
        elif self._writing and not wanted:
            self._poll.unregister(descriptor)
        self._writing = wanted
