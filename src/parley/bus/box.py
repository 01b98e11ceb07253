"""Messages in memory, by rising id, with the count of what they take up."""

from collections import Counter
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from parley.bus.mesh_store import Held


class _Message(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def peer(self) -> bytes: ...
    @property
    def payload(self) -> bytes: ...


M = TypeVar("M", bound=_Message)


class Box(Generic[M]):
    """An id is given once, also when its message is gone. What is changed keeps its place, peer and payload."""

    def __init__(self) -> None:
        self._messages: dict[int, M] = {}
        self._bytes = 0
        self._of_peer: Counter[bytes] = Counter()
        self._last_id = 0

    def __iter__(self) -> Iterator[M]:
        return iter(self._messages.values())

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def held(self, peer: bytes) -> Held:
        return Held(len(self._messages), self._bytes, self._of_peer[peer])

    def get(self, number: int) -> M | None:
        return self._messages.get(number)

    def page(self, after: int, limit: int) -> list[M]:
        """The first messages above this id."""
        return [message for message in self if message.id > after][:limit]

    def put(self, message: M) -> None:
        self._messages[message.id] = message
        self._bytes += len(message.payload)
        self._of_peer[message.peer] += 1

    def change(self, message: M) -> M:
        self._messages[message.id] = message
        return message

    def take(self, number: int) -> M | None:
        message = self._messages.pop(number, None)
        if message is not None:
            self._bytes -= len(message.payload)
            self._of_peer[message.peer] -= 1
            if not self._of_peer[message.peer]:
                del self._of_peer[message.peer]
        return message
