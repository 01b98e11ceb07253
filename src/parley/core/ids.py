"""Ids that sort in the order of their creation.

An id is a prefix, the milliseconds of its creation in base 36, and a fixed-width counter in base 36:
``msg_mi1k2x3y00000001``. Within one database ids only grow, also when the clock stands still or goes back: the
source starts above the largest id in the file and never issues a smaller one. The time part has the width that
Agentlip's ids have and the suffix the same eight characters, so ids of an adopted workspace sort before ours.
"""

import re
import secrets
import uuid
from typing import Final

ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
CHANNEL, TOPIC, MESSAGE, ATTACHMENT, ENRICHMENT = "ch_", "topic_", "msg_", "att_", "enr_"
TASK, LEASE = "task_", "lease_"
PREFIXES: Final = (CHANNEL, TOPIC, MESSAGE, ATTACHMENT, ENRICHMENT, TASK, LEASE)

_CHANNEL_FORM: Final = re.compile(r"ch_[0-9a-z]{16,}")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX_WIDTH: Final = 8
_SUFFIX_LIMIT: Final = 36**_SUFFIX_WIDTH


def is_id(text: str) -> bool:
    """Whether the text has the form of an id: 1 to 64 of ``[A-Za-z0-9_-]``."""
    return ID_PATTERN.fullmatch(text) is not None


def is_channel_id(text: str) -> bool:
    """Whether the text has the form of the ids that channels are given, here and by Agentlip."""
    return _CHANNEL_FORM.fullmatch(text) is not None


def base36(number: int) -> str:
    """The number in base 36, lower case."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number == 0:
            return digits


class IdSource:
    """Issues ids for one database. Used by its one writer only, so it needs no lock."""

    def __init__(self, largest: dict[str, str] | None = None) -> None:
        """``largest`` maps a prefix to the largest id of that kind in the file."""
        self._last_ms = 0
        self._counter = 0
        self._rendered = (-1, "")
        for prefix, text in (largest or {}).items():
            self._start_above(text.removeprefix(prefix))

    def new(self, prefix: str, now_ms: int) -> str:
        """The next id. ``now_ms`` may go backwards; the id does not."""
        if now_ms > self._last_ms:
            self._last_ms, self._counter = now_ms, 0
        else:
            self._counter += 1
            if self._counter == _SUFFIX_LIMIT:
                self._last_ms, self._counter = self._last_ms + 1, 0
        if self._rendered[0] != self._last_ms:
            self._rendered = (self._last_ms, base36(self._last_ms))
        return f"{prefix}{self._rendered[1]}{base36(self._counter):0>8}"

    def _start_above(self, tail: str) -> None:
        if len(tail) <= _SUFFIX_WIDTH or not tail.isalnum() or not tail.isascii() or tail != tail.lower():
            return  # not of this form; such an id sorts by itself and cannot be continued
        milliseconds, counter = int(tail[:-_SUFFIX_WIDTH], 36), int(tail[-_SUFFIX_WIDTH:], 36)
        if (milliseconds, counter) > (self._last_ms, self._counter):
            self._last_ms, self._counter = milliseconds, counter


def new_uuid() -> str:
    """A random identity for a database or a running instance."""
    return str(uuid.uuid4())


def new_code() -> str:
    """A secret that travels in a link: 192 random bits as 32 characters that need no escape."""
    return secrets.token_urlsafe(24)


def new_token() -> str:
    """A bearer token: 256 random bits as 64 hexadecimal characters."""
    return secrets.token_hex(32)
