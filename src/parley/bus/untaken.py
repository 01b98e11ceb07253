"""Replies that whoever asked has not taken yet: bounded for each peer, as one that asks on and takes nothing would
have this side keep them all."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from parley.bus.fingerprint import Fingerprint
from parley.core import limits


class Untaken:
    """How many there are, and how long they are."""

    def __init__(self) -> None:
        self._replies: Counter[Fingerprint] = Counter()
        self._bytes: Counter[Fingerprint] = Counter()

    @contextmanager
    def keep(self, peer: Fingerprint, size: int) -> Generator[bool]:
        """Whether there is room for one more, which is then counted while it lasts."""
        if self._replies[peer] >= limits.BUS_UNTAKEN_MAX or self._bytes[peer] + size > limits.BUS_UNTAKEN_BYTES_MAX:
            yield False
            return
        self._replies[peer] += 1
        self._bytes[peer] += size
        try:
            yield True
        finally:
            self._replies[peer] -= 1
            self._bytes[peer] -= size
            if not self._replies[peer]:
                del self._replies[peer], self._bytes[peer]
