"""Feeds: an iterator of events that outlives its connections, asynchronous and blocking.

These are shells around ``FeedMachine``. They read from the socket only while the consumer waits for an event, and the
WebSocket library's own buffer is small, so a slow consumer makes the hub wait instead of filling memory.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never, cast

import msgspec

from parley.client import feed_machine as fm
from parley.client.cursor import CursorStore
from parley.client.feed_machine import Awaited, FeedMachine, Immediate, Input, StateChange, StateName
from parley.client.refusals import error_from
from parley.client.spool import SCHEME
from parley.client.spool_feed import AsyncSpoolFeed, SpoolFeed
from parley.client.steps import HubAddress, Reply
from parley.core.errors import ParleyError
from parley.wire.events import EventEnvelope, Hello

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed, InvalidStatus
    from websockets.sync.client import ClientConnection as BlockingConnection

Handler = Callable[[StateChange], None]
_Self = TypeVar("_Self", bound="_Feed")

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""An edit carries two contents, and escaping can make each six times as long; this is far above."""
CLOSE_SECONDS: Final = 1.0
"""How long saying goodbye may take."""
LOST: Final = 1006


class _Feed:
    """What both feeds share: the machine, its cursor's place, and the handlers."""

    def __init__(self, machine: FeedMachine, store: CursorStore | None, on_state: Handler | None) -> None:
        self._machine = machine
        self._store = store
        self._handlers: list[tuple[StateName | None, Handler]] = []
        if on_state is not None:
            self._handlers.append((None, on_state))
        self._awaited: Awaited | None = None
        self._address: HubAddress | None = None
        self._closed = False
        self._closing_store = threading.Lock()

    @property
    def last_event_id(self) -> int | None:
        """The last event handed out, or the cursor that the feed began with."""
        return self._machine.last_event_id

    def on(self: _Self, name: StateName, handler: Handler) -> _Self:
        """Calls the handler at each such change of state, in the consumer's own thread or task."""
        self._handlers.append((name, handler))
        return self

    def commit(self) -> None:
        """Says that the last event is processed, without asking for the next one. A closed feed takes no word of it."""
        self._do(self._machine.processed())

    def _begin(self) -> None:
        # What a cancelled call was waiting for is waited for again; only a delivered event lets the feed move on.
        if self._awaited is None or isinstance(self._awaited, fm.Emit):
            self._advance(fm.Wanted())

    def _advance(self, given: Input) -> None:
        effects = self._machine.handle(given)
        self._awaited = effects.then
        self._do(effects.first)

    def _do(self, effects: tuple[Immediate, ...]) -> None:
        for effect in effects:
            match effect:
                case fm.Report(change):
                    for name, handler in self._handlers:
                        if name is None or name == change.name:
                            handler(change)
                case fm.Save(cursor):
                    with self._closing_store:
                        if self._store is not None and not self._closed:
                            self._store.save(cursor)

    def _end(self) -> None:
        with self._closing_store:
            if self._store is not None and not self._closed:
                self._store.close()
            self._closed = True


class AsyncFeed(_Feed):
    """Events as an asynchronous iterator. Use it as a context manager, so that its connection is closed."""

    def __init__(
        self,
        machine: FeedMachine,
        store: CursorStore | None,
        on_state: Handler | None,
        reach: Callable[[], Awaitable[HubAddress]],
        timeout: float,
    ) -> None:
        super().__init__(machine, store, on_state)
        self._reach = reach
        self._timeout = timeout
        self._socket: ClientConnection | AsyncSpoolFeed | None = None

    async def __aenter__(self) -> "AsyncFeed":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> "AsyncFeed":
        return self

    async def __anext__(self) -> EventEnvelope:
        if self._closed:
            raise StopAsyncIteration
        self._begin()
        while True:
            match self._awaited:
                case fm.Emit(event):
                    return event
                case fm.Stop(error):
                    await self._drop()
                    raise error
                case None:
                    raise StopAsyncIteration
                case effect:
                    self._advance(await self._carry_out(effect))

    async def aclose(self) -> None:
        """Ends the feed. The event being processed is not counted as done; see ``commit``."""
        self._end()
        await self._drop()

    async def _carry_out(self, effect: "fm.Locate | fm.Open | fm.Greet | fm.Receive | fm.Sleep") -> Input:
        from websockets.exceptions import ConnectionClosed

        try:
            match effect:
                case fm.Receive():
                    assert self._socket is not None
                    return fm.Received(await self._socket.recv())
                case fm.Greet(hello):
                    assert self._socket is not None
                    await self._socket.send(_encode(hello))
                    return fm.Greeted()
                case fm.Open():
                    await self._drop()
                    return await self._open()
                case fm.Locate():
                    await self._drop()
                    self._address = await self._reach()
                    return fm.Located(self._address.db_id)
                case fm.Sleep(seconds):
                    await self._drop()
                    await asyncio.sleep(seconds)
                    return fm.Elapsed()
                case _:
                    assert_never(effect)
        except ParleyError as error:
            return fm.Failed(error)
        except ConnectionClosed as closed:
            return _closed(closed)

    async def _open(self) -> Input:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidStatus

        assert self._address is not None
        if self._address.base_url.startswith(SCHEME):
            self._socket = AsyncSpoolFeed(self._address, self._timeout)
            return fm.Opened()
        try:
            self._socket = await connect(**_options(self._address, self._timeout))
        except InvalidStatus as refused:
            return _refused(refused)
        except (OSError, InvalidHandshake) as error:
            return fm.Closed(LOST, _describe(error))
        return fm.Opened()

    async def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()


class Feed(_Feed):
    """Events as a blocking iterator. ``close`` may be called by another thread and ends the iteration."""

    def __init__(
        self,
        machine: FeedMachine,
        store: CursorStore | None,
        on_state: Handler | None,
        reach: Callable[[], HubAddress],
        timeout: float,
    ) -> None:
        super().__init__(machine, store, on_state)
        self._reach = reach
        self._timeout = timeout
        self._socket: BlockingConnection | SpoolFeed | None = None
        self._closing = threading.Event()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> EventEnvelope:
        if self._closing.is_set():
            raise StopIteration
        self._begin()
        while True:
            match self._awaited:
                case fm.Emit(event):
                    return event
                case fm.Stop(error):
                    self._drop()
                    raise error
                case None:
                    raise StopIteration
                case effect:
                    outcome = self._carry_out(effect)
                    if self._closing.is_set():
                        self._drop()
                        raise StopIteration
                    self._advance(outcome)

    def close(self) -> None:
        """Ends the feed. The event being processed is not counted as done; see ``commit``."""
        self._closing.set()
        self._end()
        self._drop()

    def _carry_out(self, effect: "fm.Locate | fm.Open | fm.Greet | fm.Receive | fm.Sleep") -> Input:
        from websockets.exceptions import ConnectionClosed

        socket = self._socket
        try:
            match effect:
                case fm.Receive():
                    return fm.Received(socket.recv()) if socket is not None else fm.Closed(LOST)
                case fm.Greet(hello):
                    if socket is None:
                        return fm.Closed(LOST)
                    socket.send(_encode(hello))
                    return fm.Greeted()
                case fm.Open():
                    self._drop()
                    return self._open()
                case fm.Locate():
                    self._drop()
                    self._address = self._reach()
                    return fm.Located(self._address.db_id)
                case fm.Sleep(seconds):
                    self._drop()
                    self._closing.wait(seconds)
                    return fm.Elapsed()
                case _:
                    assert_never(effect)
        except ParleyError as error:
            return fm.Failed(error)
        except ConnectionClosed as closed:
            return _closed(closed)

    def _open(self) -> Input:
        from websockets.exceptions import InvalidHandshake, InvalidStatus
        from websockets.sync.client import connect

        assert self._address is not None
        if self._address.base_url.startswith(SCHEME):
            self._socket = SpoolFeed(self._address, self._timeout)
            return fm.Opened()
        try:
            # Entered because some versions of the library warn about a connection that is not; ``_drop`` closes it.
            connection: BlockingConnection = cast(Any, connect)(**_options(self._address, self._timeout))
            self._socket = ExitStack().enter_context(connection)
        except InvalidStatus as refused:
            return _refused(refused)
        except (OSError, InvalidHandshake) as error:
            return fm.Closed(LOST, _describe(error))
        return fm.Opened()

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()


def _options(address: HubAddress, timeout: float) -> dict[str, Any]:
    headers = {} if address.token is None else {"Authorization": f"Bearer {address.token}"}
    if address.agent is not None:
        headers["X-Parley-Agent"] = address.agent
    return {
        "uri": f"ws{address.base_url.removeprefix('http')}/ws",
        "additional_headers": headers,
        "open_timeout": timeout,
        "close_timeout": CLOSE_SECONDS,
        "max_size": FRAME_BYTES_MAX,
        "compression": None,
        "proxy": None,
    }


def _encode(hello: Hello) -> str:
    return msgspec.json.encode(hello).decode()


def _refused(refusal: "InvalidStatus") -> Input:
    response = refusal.response
    return fm.Failed(
        error_from(Reply(response.status_code, bytes(response.body or b""), response.headers.get("Retry-After")))
    )


def _closed(closed: "ConnectionClosed") -> Input:
    received = closed.rcvd
    return fm.Closed(LOST, str(closed)) if received is None else fm.Closed(received.code, received.reason)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
