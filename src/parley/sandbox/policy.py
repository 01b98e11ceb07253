"""What a command in the sandbox may do. Everything that is not named here, it may not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Literal

MIB: Final = 1024 * 1024

Reason = Literal["unavailable", "timeout", "output", "ended"]
"""Why a command did not do its work: it could not be started, took too long, wrote too much, or ended too early."""


class JailError(Exception):
    """The command did not do its work, and nothing of it runs any more."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Policy:
    """What one process tree sees, and its limits, enforced by the kernel or by the process that watches it."""

    readable: tuple[Path, ...] = ()
    """Files and folders that are shown, read-only, beside the interpreter and its libraries."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Small files, by their names under ``/app``, read-only. They are handed over in memory: what was checked is what
    is shown."""
    hidden: tuple[Path, ...] = ()
    """Paths that must never be visible: a jail whose shown paths contain one of them is not built."""
    network: bool = False
    """Whether it may open TCP connections to the ports of DNS and the web. Without it there is not even a loopback."""
    deadline_seconds: float = 5.0
    """Wall-clock time for a whole ``run``, and for each ``send`` to a ``Jail``; then everything is killed."""
    memory_bytes: int = 256 * MIB
    """Address space of each process; all of them together can have ``processes`` times as much."""
    cpu_seconds: int = 10
    """CPU time of each process over its whole life."""
    scratch_bytes: int = 16 * MIB
    """Size of ``/scratch``, the one folder that can be written; it lives in memory and is gone with the process."""
    output_bytes: int = MIB
    """Most that it may write to standard output, or to standard error: in a whole ``run``, or from one line that a
    ``Jail`` hands over to the next."""
    processes: int = 16
    """Processes and threads at one time."""
    open_files: int = 64
    """Open files of each process."""

    def __post_init__(self) -> None:
        for name in self.files:
            path = PurePosixPath(name)
            if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
                raise ValueError(f"{name!r} is no name of a file under /app")
