"""One id per request, in the answer's ``X-Request-ID`` and in the log, so that a caller's report finds its line.

A caller may name its own request. What it sends comes back in a header and in a log line, so it is taken only if it
is short and holds nothing that means something in HTML or in a shell.

Ids of ours have the form of a random UUID. They must differ, they need not be secret: the first three quarters are
random once per process, the last is a counter, and no request pays for a system call.
"""

import re
from itertools import count
from typing import Final

from parley.core.ids import new_uuid
from parley.core.limits import REQUEST_ID_CHARS_MAX

_SAFE: Final = re.compile(rb"[A-Za-z0-9._~:/@+=,#-]{1,%d}" % REQUEST_ID_CHARS_MAX).fullmatch
_COUNTER_CHARS: Final = 12
_COUNTER_LIMIT: Final = 16**_COUNTER_CHARS


class RequestIds:
    """Issues the ids of one process, from a random UUID of version 4."""

    def __init__(self, seed: str) -> None:
        self._prefix = seed[:-_COUNTER_CHARS]
        self._next = count(int(seed[-_COUNTER_CHARS:], 16)).__next__

    def __call__(self, header: bytes | None) -> str:
        """The caller's own id if it sent a usable one, else a fresh one."""
        if header is not None and _SAFE(header):
            return header.decode("ascii")
        return f"{self._prefix}{self._next() % _COUNTER_LIMIT:012x}"


request_id: Final = RequestIds(new_uuid())
"""The ids of this process."""
