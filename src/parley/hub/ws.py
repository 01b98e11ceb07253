"""``/ws``: the feed on a socket.

The shell has admitted the caller before a connection comes here. ``websockets`` does the handshake and parses what the
client sends; what the hub sends is written straight to the transport, because the feed's frames are already made
and the same bytes go to many sockets. The rules of the feed are in ``feed``; this is its shell: a socket, timers, and
reads on a thread.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from parley.core.errors import (
    CursorExpired,
    ParleyError,
)
from parley.core.limits import SUBSCRIPTIONS_MAX
from parley.core.untrusted_json import decode_by
from parley.hub.feed import Subscriber
from parley.hub.http.door import Proof
from parley.hub.replay import Filter, frame, read_batch
from parley.serve.door import Visit
from parley.wire.events import Hello, HelloOk, Subscriptions
from parley.workspace import queries
from parley.workspace.log import encode_json

if TYPE_CHECKING:
    from parley.hub.hub import Hub

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""The transport's high-water mark: above it the subscriber waits for the socket to drain."""
CLOSE_REASON_BYTES_MAX: Final = 123
"""What fits a close frame beside its code (RFC 6455)."""
CLOSE_SECONDS: Final = 5.0
"""How long a closing connection may take to send what is in its buffer."""

_decode_json = msgspec.json.decode
_library_log = logging.getLogger("parley.websockets")
_library_log.setLevel(logging.WARNING)  # it tells of every connection; the metrics do, too
_decode_hello = msgspec.json.Decoder(Hello).decode


class _FeedProtocol(ServerProtocol):
    """The library's protocol with our words: its own tell a client sizes in a form that changes with its version."""

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        super().fail(code, "Message too large" if code == CloseCode.MESSAGE_TOO_BIG else reason)


class FeedConnection(asyncio.Protocol):
    """One connection: the handshake, then a hello, then events until one side closes."""

    def __init__(self, hub: "Hub", visit: Visit, connections: set[Any]) -> None:
        self._hub = hub
        self.token, self.session = cast(Proof, visit.proof)
        """The token that opened the connection, or the page's session; it is closed when that is no longer valid."""
        self.agent = visit.headers.get(b"x-parley-agent", b"").decode("latin-1") or None
        """The agent that listens, if it said so."""
        self._request_id = visit.request_id
        self._settings = hub.settings.websocket
        self._loop = asyncio.get_running_loop()
        self._connections = connections
        self._protocol = _FeedProtocol(max_size=self._settings.message_bytes_max, logger=_library_log)
        self._transport: asyncio.Transport | None = None
        self._subscriber = Subscriber(hub.feed, self)
        self._fragments: list[bytes] = []
        self._is_text = False
        self._timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._is_full = False
        self._late_pong = b""
        self._pong_due = False
        self._open = False

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None  # uvloop raises for whatever is asked of a transport that is gone
        self._connections.discard(self)
        self._stop_timers()
        self._subscriber.closed()
        if self._open:
            self._open = False
            self._hub.feed_closed(self, self._close_code())

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._accept(event)
            elif isinstance(event, Frame):
                self._take_frame(event)
        if self._protocol.parser_exc is not None and not isinstance(self._protocol.parser_exc, EOFError):
            too_big = isinstance(self._protocol.parser_exc, PayloadTooBig)
            self._hub.log.debug("ws_bad_frame", too_big=too_big)
        self._flush()
        if self._protocol.state is not State.OPEN and self._open:
            self._finish()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_full = True
        self._subscriber.filled()
        if self._transport is not None and self._timer is None:
            self._unsent = self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(self._settings.stall_seconds, self._check_progress)

    def resume_writing(self) -> None:
        self._is_full = False
        self._flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._subscriber.drained()

    def shutdown(self) -> None:
        """uvicorn's word that the server stops."""
        self.close(1001, "Server shutting down")

    # What the subscriber asks for.

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def read(self, after: int, until: int, wanted: Filter | None) -> None:
        limit = self._settings.replay_batch
        reading = self._loop.create_task(
            self._hub.store.read_slow(lambda connection: read_batch(connection, after, until, wanted, limit))
        )
        reading.add_done_callback(self._batch_read)

    # The connection's own life.

    def close(self, code: int, reason: str) -> None:
        """Says goodbye with a close code; what was written before still goes out."""
        if self._protocol.state is State.OPEN and self._open:
            self._protocol.send_close(code, reason.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore"))
            self._flush()
            self._finish()
        elif self._transport is not None and not self._open:
            self._transport.close()

    def close_if_outdated(self) -> None:
        """Closes the connection if what it was opened with is no longer valid."""
        if self.session and not self._hub.page.sessions.is_valid(self.session):
            self.close(4401, "The session is no longer valid")
        elif self.token and not self._hub.tokens.matches(self.token):
            self.close(4401, "The token is no longer valid")

    def _accept(self, request: Request) -> None:
        """Says yes: whether this caller gets a feed was decided before."""
        response = self._protocol.accept(request)
        response.headers["X-Request-ID"] = self._request_id
        for name, value in self._hub.app.common_headers:
            response.headers[name.decode()] = value.decode()
        self._protocol.send_response(response)
        self._flush()
        self._open = True
        self._hub.feed_opened(self)
        self._timer = self._loop.call_later(self._settings.hello_seconds, self._no_hello)
        self._ping_timer = self._loop.call_later(self._settings.ping_seconds, self._ping)

    def _take_frame(self, received: Frame) -> None:
        if received.opcode is Opcode.PONG:
            self._pong_due = False
        elif received.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            if received.opcode is not Opcode.CONT:
                self._is_text = received.opcode is Opcode.TEXT
            self._fragments.append(bytes(received.data))
            if received.fin:
                message, self._fragments = b"".join(self._fragments), []
                self._take_message(message)

    def _take_message(self, message: bytes) -> None:
        if self._protocol.state is not State.OPEN:
            return
        if self._subscriber.phase != "greeting":
            self.close(1003, "Unexpected message after handshake")
            return
        if self._is_text and not _is_utf8(message):
            self.close(1007, "Text that is not UTF-8")
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

    def _greet(self, after: int | None, subscriptions: Subscriptions | None) -> None:
        hub = self._hub
        wanted = None if subscriptions is None else self._resolve(subscriptions)
        floor = hub.store.read(queries.oldest_cursor)
        if floor is not None and after is not None and after < floor.event_id:
            raise CursorExpired("These events were archived", archive=floor.archive, oldest_cursor=floor.event_id)
        start = after if after is not None else (floor.event_id if floor is not None else 0)
        latest = hub.feed.latest
        hello_ok = HelloOk(latest, latest, hub.instance_id, reset=start > latest)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.write(frame(encode_json(hello_ok)))
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
        elif self._open:
            self._hub.log.error("replay_failed", error=type(error).__name__)
            self.close(1011, "Internal error during replay")

    def _no_hello(self) -> None:
        self._timer = None
        self.close(1008, "No hello in time")

    def _check_progress(self) -> None:
        self._timer = None
        if self._transport is None or not self._open:
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
        if self._protocol.state is not State.OPEN or self._transport is None:
            return
        if self._transport.get_write_buffer_size() == 0:  # a full socket has its own deadline
            if self._pong_due:
                self.close(1011, "Ping unanswered")
                return
            self._pong_due = True
            self._protocol.send_ping(b"")
            self._flush()
        self._ping_timer = self._loop.call_later(self._settings.ping_seconds, self._ping)

    def _flush(self) -> None:
        if self._transport is None:
            return
        is_open = self._protocol.state is State.OPEN
        if self._late_pong and is_open and not self._is_full:
            self._transport.write(self._late_pong)
            self._late_pong = b""
        for data in self._protocol.data_to_send():
            if self._is_full and is_open:  # then it is a pong, and whoever takes none is owed the newest alone
                self._late_pong = data
            elif data:
                self._transport.write(data)
            elif not self._open:  # the end of a handshake that came to nothing
                self._transport.close()

    def _finish(self) -> None:
        """Closes the transport once its buffer is out, or after a while in any case."""
        self._stop_timers()
        self._subscriber.closed()
        if self._transport is not None:
            self._transport.close()
            self._abort_timer = self._loop.call_later(CLOSE_SECONDS, self._transport.abort)

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._ping_timer, self._abort_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._ping_timer = self._abort_timer = None

    def _close_code(self) -> int:
        sent = self._protocol.close_sent
        received = self._protocol.close_rcvd
        return int(sent.code if sent is not None else received.code if received is not None else 1006)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


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
