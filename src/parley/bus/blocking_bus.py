"""The bus for programs without an event loop: each call waits for what it asks of a ``Bus`` on a thread of its own.

Nothing is decided here. Handlers are called in threads, one for each message that is handled at a time, and may use the
bus themselves.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from parley.bus.bus import Bus
from parley.bus.fingerprint import Fingerprint
from parley.bus.mesh_store import Undispatched
from parley.bus.options import Delivery, Peer, SpoolPolicy
from parley.bus.spool import Outbox
from parley.bus.subscription import Message, Subscription
from parley.bus.transport import Address
from parley.core import limits
from parley.core.bus_errors import BusClosed

if TYPE_CHECKING:
    from parley.bus.node import Listening

T = TypeVar("T")

_NAME: Final = "parley-bus"

RequestHandler = Callable[[Message], bytes]
PublishHandler = Callable[[Message], None]


class BlockingBus:
    """A ``Bus`` that lives as long as the context manager that makes it is entered. May be used by several threads."""

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[Bus]]) -> None:
        """Opens the bus, and waits for that. Raises what opening it raises.

        ``opening`` is called on the thread of the bus: ``lambda: bus_with(...)``, or use ``at_home``.
        """
        self._started: Future[None] = Future()
        self._asking = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=asyncio.run, args=(self._live(opening),), name=_NAME, daemon=True)
        self._thread.start()
        self._started.result()

    @classmethod
    def at_home(
        cls,
        *,
        topics: Iterable[str] = (),
        folder: Path | None = None,
        host: str | None = None,
        port: int | None = None,
        spool: SpoolPolicy | None = None,
        mdns: bool = True,
        note: Callable[[str], None] = lambda sentence: None,
    ) -> "BlockingBus":
        """This machine on the LAN, as ``parley bus listen`` is, with the keys and the store of its folder.

        Name the topics that will be subscribed to: what comes before then waits. ``note`` is told what is amiss.
        """
        from parley.bus.node import Listening

        root = None if folder is None else folder.absolute()
        listening = Listening(frozenset(topics), host, port, spool)
        return cls(lambda: _at_home(listening, root, mdns=mdns, note=note))

    def __enter__(self) -> "BlockingBus":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def fingerprint(self) -> Fingerprint:
        """This agent's."""
        return self._bus.fingerprint

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._bus.address

    def request(
        self,
        peer: Fingerprint,
        topic: str,
        body: bytes,
        *,
        timeout: float = limits.BUS_REQUEST_SECONDS,
        message_id: bytes | None = None,
    ) -> bytes:
        """As ``Bus.request``."""
        return self.wait(self._bus.request(peer, topic, body, timeout=timeout, message_id=message_id))

    def handle(self, topic: str, handler: RequestHandler) -> None:
        """As ``Bus.handle``."""

        async def answer(message: Message) -> bytes:
            return await self._on_a_thread(handler, message)

        self._call(lambda: self._bus.handle(topic, answer))

    def publish(self, topic: str, body: bytes) -> list[Delivery]:
        """As ``Bus.publish``."""
        return self.wait(self._bus.publish(topic, body))

    def publish_to(self, peer: Fingerprint, topic: str, body: bytes, *, message_id: bytes | None = None) -> Delivery:
        """As ``Bus.publish_to``."""
        return self.wait(self._bus.publish_to(peer, topic, body, message_id=message_id))

    def subscribe(self, topic: str, handler: PublishHandler | None = None) -> "BlockingSubscription":
        """As ``Bus.subscribe``: with a handler, or as an iterator that waits for the next message."""
        if handler is None:
            return BlockingSubscription(self, self._call(lambda: self._bus.subscribe(topic)))
        called = handler

        async def hand_over(message: Message) -> None:
            await self._on_a_thread(called, message)

        return BlockingSubscription(self, self._call(lambda: self._bus.subscribe(topic, hand_over)))

    def peers(self) -> list[Peer]:
        """As ``Bus.peers``."""
        return self._call(self._bus.peers)

    def connect(self, peer: Fingerprint) -> None:
        """As ``Bus.connect``."""
        self.wait(self._bus.connect(peer))

    def outbox(self) -> Outbox:
        """As ``Bus.outbox``."""
        return self.wait(self._bus.outbox())

    def drain(self) -> None:
        """As ``Bus.drain``."""
        self.wait(self._bus.drain())

    def unwedge(self, outbox_id: int) -> bool:
        """As ``Bus.unwedge``."""
        return self.wait(self._bus.unwedge(outbox_id))

    def discard(self, outbox_id: int) -> bool:
        """As ``Bus.discard``."""
        return self.wait(self._bus.discard(outbox_id))

    def inbox(self) -> list[Undispatched]:
        """As ``Bus.inbox``."""
        return self.wait(self._bus.inbox())

    def unwedge_inbox(self, inbox_id: int) -> bool:
        """As ``Bus.unwedge_inbox``."""
        return self.wait(self._bus.unwedge_inbox(inbox_id))

    def close(self) -> None:
        """Gives what is under way up to five seconds, and lets go of everything. To close again does nothing."""
        with self._asking:
            self._is_closed = True
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, which runs on the loop of the bus. Raises ``BusClosed`` when that has ended."""
        with self._asking:  # what is asked once the loop has ended would never be done
            if self._is_closed:
                work.close()
                raise BusClosed("the bus was closed")
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result()
        except CancelledError as error:
            raise BusClosed("the bus was closed") from error
        except BaseException:  # such as a KeyboardInterrupt: nobody waits for it any more
            asked.cancel()
            raise

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self.wait(call())

    async def _on_a_thread(self, handler: Callable[[Message], T], message: Message) -> T:
        return await self._loop.run_in_executor(self._threads, handler, message)

    async def _live(self, opening: Callable[[], AbstractAsyncContextManager[Bus]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._threads = ThreadPoolExecutor(limits.BUS_HANDLERS_MAX, thread_name_prefix=_NAME)
        try:
            async with opening() as self._bus:
                self._started.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
        finally:
            self._threads.shutdown(wait=False)  # a handler that does not return holds up nobody


class BlockingSubscription:
    """What is published on a topic: an iterator, if there is no handler. It ends when it or the bus is closed."""

    def __init__(self, bus: BlockingBus, subscription: Subscription) -> None:
        self.topic = subscription.topic
        self._bus = bus
        self._subscription = subscription

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        try:
            found = self._bus.wait(self._next())
        except BusClosed:
            found = None
        if found is None:
            raise StopIteration
        return found

    def close(self) -> None:
        """As ``Subscription.close``."""
        self._bus.wait(self._subscription.close())

    async def _next(self) -> Message | None:
        return await anext(self._subscription, None)


@asynccontextmanager
async def _at_home(
    listening: "Listening",
    folder: Path | None,
    *,
    mdns: bool,
    note: Callable[[str], None],
) -> AsyncGenerator[Bus]:
    from parley.bus.home import BusHome, bus_home
    from parley.bus.node import joined

    home = bus_home() if folder is None else BusHome(folder)
    async with joined(home, listening=listening, mdns=mdns, note=note) as node:
        yield node.bus
