"""What is published on a topic, as somebody here takes it."""

from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from parley.bus.consumer import Arrival, AskedConsumer, Consumer
from parley.bus.fingerprint import Fingerprint
from parley.core.errors import InvalidInput
from parley.core.limits import BUS_CLOSE_SECONDS


class Message(NamedTuple):
    """A request, or something published, as a handler gets it."""

    peer: Fingerprint
    topic: str
    body: bytes
    message_id: bytes
    redelivered: bool
    """Whether a handler may have had it before: it did not return then."""

    @classmethod
    def of(cls, arrival: Arrival) -> "Message":
        said = arrival.message
        return cls(arrival.peer, said.topic, said.body, arrival.message_id, arrival.redelivered)


class Subscription:
    """An async iterator over messages, if there is no handler; in both cases, what ends it is ``close``."""

    def __init__(self, topic: str, consumer: Consumer, *, closed: Callable[[], None]) -> None:
        self.topic = topic
        self._consumer = consumer
        self._closed = closed

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Message:
        if not isinstance(self._consumer, AskedConsumer):
            raise InvalidInput("a handler takes what is published on this topic", field="topic")
        arrival = await self._consumer.ask()
        if arrival is None:
            raise StopAsyncIteration
        return Message.of(arrival)

    async def close(self) -> None:
        """Ends the subscription; a handler that runs is given five seconds.

        The message that an iterator gave last, unless the next one was asked for, comes again to whoever subscribes
        next.
        """
        await self._consumer.finish(BUS_CLOSE_SECONDS)
        self._closed()

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
