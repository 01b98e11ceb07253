"""One page of a list of members, which must fit into a frame: a daemon hangs up on a larger one."""

from typing import Any, Final

import msgspec

from parley.core.limits import BROKER_FRAME_BYTES_MAX
from parley.wire import mesh_methods as wire

ANSWER_BYTES_MAX: Final = BROKER_FRAME_BYTES_MAX - 64 * 1024
"""Views of one answer, with room for what is around them."""
UNPAGED_MAX: Final = 20_000
"""Members that are read for a daemon that knows no pages; more of the shortest views do not fit."""


class MemberPage:
    """Takes views in the order of their members' ids until one does not fit; ``cursor`` then says where to go on."""

    def __init__(self, asked: wire.MemberPage) -> None:
        self.after = asked.after or ""
        self.views: list[dict[str, Any]] = []
        self.cursor: str | None = None
        self._limit = asked.limit or UNPAGED_MAX
        self._room = ANSWER_BYTES_MAX
        self._taken = 0
        self._last = ""

    @property
    def read(self) -> int:
        """How many members to look up: one more than a page holds tells whether it is the last."""
        return self._limit + 1

    def add(self, member_id: str, view: dict[str, Any] | None) -> None:
        """A member that is hidden (None) takes no room, but the list goes on behind it."""
        if self.cursor is not None:
            return
        size = 0 if view is None else len(msgspec.json.encode(view)) + 1
        if self._taken and (self._taken == self._limit or size > self._room):
            self.cursor = self._last
            return
        if view is not None:
            self.views.append(view)
        self._taken += 1
        self._room -= size
        self._last = member_id
