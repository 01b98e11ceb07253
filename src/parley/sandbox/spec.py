"""What the outside of a jail hands to the program that builds it, and the few names that both sides share.

It is written with ``marshal``: both ends are the same interpreter, and the inside loads as little as it can, since a
jail is started often and a person may wait for it.
"""

from typing import Final, TypedDict

APP: Final = "/app"
"""The policy's files, read-only."""
SCRATCH: Final = "/scratch"
"""The one folder that can be written; also the current folder and the home."""
STARTED: Final = b"+"
"""What the inside says just before it becomes the command; anything else that it says is why there is no jail."""
TCP_PORTS: Final = (53, 80, 443)
"""Where a jail with a network may connect to: DNS and the web. A hub's port is none of them."""


class Spec(TypedDict):
    """A command, what it sees and its limits."""

    owner: int
    command: list[str]
    environment: dict[str, str]
    shown: list[str]
    links: list[tuple[str, str]]
    files: dict[str, bytes]
    network: bool
    memory_bytes: int
    cpu_seconds: int
    scratch_bytes: int
    processes: int
    open_files: int
