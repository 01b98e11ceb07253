"""``/ws``: the feed on a socket.

The shell has admitted the caller before a connection comes here. The feed's frames are already made, and the same bytes
go to many sockets. The rules of the feed are in ``feed``; this is its shell: a socket, timers, and reads on a thread.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from parley.core.errors import (
    CursorExpired,
    ParleyError,
)
from parley.core.limits import SUBSCRIPTIONS_MAX
from parley.core.untrusted_json import decode_by
from parley.hub.feed import Subscriber
from parley.hub.http.door import Proof
from parley.hub.replay import Filter, read_batch
from parley.serve.connections import Connections
from parley.serve.door import Visit
from parley.serve.websocket import WebSocket, text_frame
from parley.wire.events import Hello, HelloOk, Subscriptions
from parley.workspace import queries
from parley.workspace.log import encode_json

if TYPE_CHECKING:
    from parley.hub.hub import Hub

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""The transport's high-water mark: above it the subscriber waits for the socket to drain."""

_decode_json = msgspec.json.decode
_decode_hello = msgspec.json.Decoder(Hello).decode


class FeedConnection(WebSocket):
    """One connection: a hello, then events until one side closes."""

    write_buffer_bytes = WRITE_BUFFER_BYTES

    def __init__(self, hub: "Hub", visit: Visit, connections: Connections) -> None:
        settings = hub.settings.websocket
        super().__init__(
            visit, connections, hub.app.common_headers, hub.log, message_bytes_max=settings.message_bytes_max
        )
        self.token, self.session = cast(Proof, visit.proof)
        """The token that opened the connection, or the page's session; it is closed when that is no longer valid."""
        self.agent = visit.headers.get(b"x-parley-agent", b"").decode("latin-1") or None
        """The agent that listens, if it said so."""
        self._hub = hub
        self._settings = settings
        self._subscriber = Subscriber(hub.feed, self)
        self._timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._pong_due = False

    # What the socket says.

    def opened(self) -> None:
        self._hub.feed_opened(self)
        self._timer = self._loop.call_later(self._settings.hello_seconds, self._no_hello)
        self._ping_timer = self._loop.call_later(self._settings.ping_seconds, self._ping)

    def heard(self, message: bytes) -> None:
        if self._subscriber.phase != "greeting":
            self.close(1003, "Unexpected message after handshake")
            return
        try:
            self._greet(*_parse_hello(message))
        except _BadHello as bad:
            self.close(1003, str(bad))
        except CursorExpired as expired:
            self.close(4410, "{}: {archive} {oldest_cursor}".format(expired.code, **expired.details))
        except ParleyError as error:
            self._hub.log.error("feed_failed", code=error.code)
            self.close(1011, "Internal error during replay")

    def ponged(self) -> None:
        self._pong_due = False

    def filled(self) -> None:
        self._subscriber.filled()
        if self._transport is not None and self._timer is None:
            self._unsent = self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(self._settings.stall_seconds, self._check_progress)

    def drained(self) -> None:
        if self._subscriber.phase != "greeting":  # then it is the hello that is waited for
            self._stop_timer()
        self._subscriber.drained()

    def ended(self, code: int) -> None:
        self._stop_timer()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        self._subscriber.closed()
        self._hub.feed_closed(self, code)

    # What the subscriber asks for.

    def read(self, after: int, until: int, wanted: Filter | None) -> None:
        limit = self._settings.replay_batch
        reading = self._loop.create_task(
            self._hub.store.read_slow(lambda connection: read_batch(connection, after, until, wanted, limit))
        )
        reading.add_done_callback(self._batch_read)

    # The connection's own life.

    def close_if_outdated(self) -> None:
        """Closes the connection if what it was opened with is no longer valid."""
        if self.session and not self._hub.page.sessions.is_valid(self.session):
            self.close(4401, "The session is no longer valid")
        elif self.token and not self._hub.tokens.matches(self.token):
            self.close(4401, "The token is no longer valid")

    def _greet(self, after: int | None, subscriptions: Subscriptions | None) -> None:
        hub = self._hub
        wanted = None if subscriptions is None else self._resolve(subscriptions)
        floor = hub.store.read(queries.oldest_cursor)
        if floor is not None and after is not None and after < floor.event_id:
            raise CursorExpired("These events were archived", archive=floor.archive, oldest_cursor=floor.event_id)
        start = after if after is not None else (floor.event_id if floor is not None else 0)
        latest = hub.feed.latest
        hello_ok = HelloOk(latest, latest, hub.instance_id, reset=start > latest)
        self._stop_timer()
        self.write(text_frame(encode_json(hello_ok)))
        self._subscriber.subscribe(start, wanted)

    def _resolve(self, subscriptions: Subscriptions) -> Filter:
        """Channels may be named by id or by name; a name that does not exist yet stays, for the day when it does."""
        read = self._hub.store.read
        meant = {each: read(partial(queries.find_channel, id_or_name=each)) for each in subscriptions.channels}
        topics = {read(partial(queries.topic_id_of, thread_id=each)) for each in subscriptions.topics}
        return Filter(
            frozenset(channel.id for channel in meant.values() if channel is not None),
            frozenset(topics),
            frozenset(name for name, channel in meant.items() if channel is None),
        )

    def _batch_read(self, reading: "asyncio.Task[Any]") -> None:
        if reading.cancelled():
            return
        error = reading.exception()
        if error is None:
            self._subscriber.batch_read(reading.result())
        elif self.is_open:
            self._hub.log.error("replay_failed", error=type(error).__name__)
            self.close(1011, "Internal error during replay")

    def _no_hello(self) -> None:
        self._timer = None
        self.close(1008, "No hello in time")

    def _check_progress(self) -> None:
        self._timer = None
        if self._transport is None or not self.is_open:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent = unsent
            self._timer = self._loop.call_later(self._settings.stall_seconds, self._check_progress)
        else:
            self.close(1008, "backpressure")

    def _ping(self) -> None:
        if self.session:  # it has an end of its own, which nobody else watches for
            self.close_if_outdated()
        if not self.is_open or self._transport is None:
            return
        if self._transport.get_write_buffer_size() == 0:  # a full socket has its own deadline
            if self._pong_due:
                self.close(1011, "Ping unanswered")
                return
            self._pong_due = True
            self.ping()
        self._ping_timer = self._loop.call_later(self._settings.ping_seconds, self._ping)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _BadHello(Exception):
    """The first message is not a hello; the text is the close reason."""


def _parse_hello(message: bytes) -> tuple[int | None, Subscriptions | None]:
    """The cursor and the subscriptions of a hello; ``None`` instead of subscriptions stands for everything."""
    try:
        fields = decode_by(_decode_json, message)
    except msgspec.DecodeError:
        raise _BadHello("Invalid JSON") from None
    if not isinstance(fields, dict) or cast("dict[str, Any]", fields).get("type") != "hello":
        raise _BadHello("Expected hello message")
    try:
        hello = _decode_hello(message)
    except msgspec.ValidationError as error:
        place = str(error)
        what = "topic subscriptions" if "topics" in place else "channel subscriptions"
        raise _BadHello(f"Invalid {'after_event_id' if 'after_event_id' in place else what}") from None
    if hello.after_event_id is not None and hello.after_event_id < 0:
        raise _BadHello("Invalid after_event_id")
    if hello.subscriptions is msgspec.UNSET:
        return hello.after_event_id, None
    subscriptions = hello.subscriptions or Subscriptions()
    for kind, listed in (("channel", subscriptions.channels), ("topic", subscriptions.topics)):
        if len(listed) > SUBSCRIPTIONS_MAX:
            raise _BadHello(f"Invalid {kind} subscriptions")
    return hello.after_event_id, subscriptions
