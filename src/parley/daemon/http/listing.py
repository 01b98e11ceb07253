"""A list in an answer of bearable size: what does not fit is on the next page, which a ``Link`` header leads to
(RFC 8288), as does the ``cursor`` in the body."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from parley.serve.endpoint import Answer
from parley.serve.params import Query

T = TypeVar("T")
ANSWER_BYTES_MAX: Final = 10_000_000
_AROUND_BYTES: Final = 10_000
"""What an answer holds beside its items, at most about."""


class Listing(Generic[T]):
    """Takes rows as they are read, until one is too many or makes the answer too large."""

    def __init__(self, limit: int, view: Callable[[T], msgspec.Struct]) -> None:
        self.rows: list[T] = []
        self.items: list[msgspec.Raw] = []
        self.more = False
        """Whether there was a row that was not taken."""
        self._limit = limit
        self._view = view
        self._room = ANSWER_BYTES_MAX - _AROUND_BYTES

    @property
    def read_max(self) -> int:
        """How many rows to read: one more than are listed tells whether there is a next page."""
        return self._limit + 1

    def take(self, row: T) -> bool:
        """False for the first row that is left to the next page. One is always taken, so that each page leads on."""
        data = msgspec.json.encode(self._view(row))
        if self.rows and (len(self.rows) == self._limit or len(data) >= self._room):
            self.more = True
            return False
        self.rows.append(row)
        self.items.append(msgspec.Raw(data))
        self._room -= len(data) + 1
        return True

    def answer(self, path: str, query: Query, cursor: int | None, **more: Any) -> Answer:
        """The answer to a request for this path; its next page is what comes before the cursor."""
        body = {"items": self.items, **more, "cursor": cursor, "more": self.more}
        if not self.more:
            return Answer(200, body)
        # What arrives meanwhile is not on an older page, so there is nothing to wait for.
        target = f"{path}?{query.changed(before=str(cursor), wait_seconds=None)}"
        return Answer(200, body, headers=((b"link", f'<{target}>; rel="next"'.encode()),))
