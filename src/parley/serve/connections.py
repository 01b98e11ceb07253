"""How many connections a server has, and which of them goes when there are too many."""

from collections import OrderedDict
from typing import Any, Protocol, cast

from uvicorn.server import ServerState


class Waiting(Protocol):
    """A connection whose caller is waited for."""

    def abort(self) -> None:
        """Closes the connection at once."""
        ...


class Connections(ServerState):
    """The connections of a server, those whose caller is waited for in the order in which that began.

    A caller is waited for until its request is whole, and while it does not take its answer.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.waiting: OrderedDict[Waiting, None] = OrderedDict()

    @property
    def busy(self) -> bool:
        """Whether a connection is open or a request is being answered."""
        return bool(self.connections or self.tasks)

    def enter(self, connection: Waiting) -> None:
        """A new connection. If there are too many now, the one that has been waited for longest is closed."""
        cast("set[Any]", self.connections).add(connection)
        self.waiting[connection] = None
        if len(self.connections) > self._most and self.waiting:
            oldest, _ = self.waiting.popitem(last=False)
            oldest.abort()

    def leave(self, connection: Waiting) -> None:
        """A connection is closed, or in other hands."""
        cast("set[Any]", self.connections).discard(connection)
        self.waiting.pop(connection, None)
