"""Where finished log lines go: a stream, or a file that is rotated by size.

Each line is one write, so a crash loses none that was handed over. A log that cannot be written (full disk, closed
pipe) never stops the server; the next line that can be written is preceded by one that says how many are missing.
"""

import contextlib
import os
import threading
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from parley.core.clock import Clock, iso

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


class Output(Protocol):
    """Takes whole lines. Raises ``OSError`` or ``ValueError`` if it cannot, and then has taken nothing."""

    def put(self, line: bytes) -> None: ...

    def close(self) -> None: ...


class StreamOutput:
    """A stream of bytes that somebody else opened and will close."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def put(self, line: bytes) -> None:
        self._stream.write(line)
        self._stream.flush()

    def close(self) -> None:
        """The stream stays open: it is not ours."""


class FileOutput:
    """A file that becomes ``name.1`` when it would grow beyond ``rotate_bytes``; ``keep`` older ones remain."""

    def __init__(self, path: Path, rotate_bytes: int, keep: int) -> None:
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._descriptor, self._size = self._open()

    def put(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._rotate_bytes:
            with contextlib.suppress(OSError):  # a log that grows too large is better than one that ends
                self._rotate()
        written = os.write(self._descriptor, line)
        if written != len(line):
            os.ftruncate(self._descriptor, self._size)
            raise OSError("the disk took only a part of the line")
        self._size += written

    def close(self) -> None:
        os.close(self._descriptor)

    def _open(self) -> tuple[int, int]:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        return descriptor, os.fstat(descriptor).st_size

    def _rotate(self) -> None:
        for number in range(self._keep, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number - 1).replace(self._numbered(number))
        self._path.replace(self._numbered(1))
        full = self._descriptor
        self._descriptor, self._size = self._open()
        os.close(full)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class LogSink:
    """Writes lines from any thread to one output, and counts those that it could not write."""

    def __init__(self, output: Output, clock: Clock) -> None:
        self._output = output
        self._clock = clock
        self._lock = threading.Lock()
        self._lost = 0
        self._closed = False

    def write(self, line: bytes) -> None:
        """Writes one line, which ends with a newline. Never raises."""
        with self._lock:
            if self._closed:
                return
            try:
                if self._lost:
                    self._output.put(self._missing())
                    self._lost = 0
                self._output.put(line)
            except (OSError, ValueError):
                self._lost += 1

    def close(self) -> None:
        """Ends the log; what comes later is not written."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._output.close()

    def _missing(self) -> bytes:
        line = {
            "ts": iso(self._clock.now_ms()),
            "level": "warning",
            "msg": "log lines could not be written",
            "count": self._lost,
        }
        return msgspec.json.encode(line) + b"\n"
