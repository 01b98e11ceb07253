"""The port of the last hub of a workspace, so that an open page finds the next one where the last one was.

A preference and no more: what cannot be read or is no port is as good as nothing, and a port that somebody else has
taken since is left to them.
"""

from pathlib import Path
from typing import Final

from parley.core.files import write_atomic

_PORT_MIN: Final = 1_024
"""Ports below need rights that the next hub may not have."""
_PORT_MAX: Final = 65_535


def recall_port(path: Path) -> int:
    """The port to prefer, or 0 for none."""
    try:
        text = path.read_bytes().strip()
    except OSError:
        return 0
    port = int(text) if text.isdigit() and len(text) <= len(str(_PORT_MAX)) else 0
    return port if _PORT_MIN <= port <= _PORT_MAX else 0


def remember_port(path: Path, port: int) -> str | None:
    """Keeps the port for the next start; returns why it could not, since that is no reason not to serve."""
    if recall_port(path) == port:
        return None
    try:
        write_atomic(path, f"{port}\n".encode("ascii"))
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
