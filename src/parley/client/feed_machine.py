"""The protocol of a feed, without a socket in it.

``FeedMachine`` is told what happened and answers what to do next; the two shells in ``feed`` do it. So every order of
frames, losses and restarts can be tried in a test::

    Wanted ─► Locate ─► Open ─► Greet ─► Receive ─► Emit ─► (Wanted) Receive ─► Emit ...
                ▲                           │
                └── Sleep ◄── lost ─────────┘

A cursor that belongs to another log is dropped, which is reported as a reset, and that log is read from its oldest
event. A token, a cursor or a hello that is refused for good ends the feed. Events come in the order of their ids and
each once: whatever was passed on before is dropped, and a new connection asks for what follows the last one passed on.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from parley.client.backoff import FEED_BACKOFF, Backoff, Random
from parley.client.cursor import Cursor
from parley.client.refusals import UNREADABLE
from parley.core import untrusted_json
from parley.core.errors import CursorExpired, InvalidAuth, InvalidInput, MissingAuth, ParleyError, Unavailable
from parley.core.registry import CLOSE_CODES
from parley.core.wire_errors import UnknownRefusal
from parley.wire.events import EventEnvelope, Hello, HelloOk, Subscriptions, decode_server_frame

GOING_AWAY: Final = 1001
NORMAL: Final = 1000
TOKEN_REVOKED: Final = 4401
CURSOR_EXPIRED: Final = 4410
FINAL_CODES: Final = frozenset(close.code for close in CLOSE_CODES if not close.reconnect) - {NORMAL}
"""Closes that another connection with the same hello would meet again."""
RESTART_SECONDS: Final = 0.5
"""A hub that says it goes away is often back at once; looking sooner than that finds nothing."""

StateName = Literal["connected", "disconnected", "reconnected", "reset"]


class StateChange(msgspec.Struct, frozen=True):
    """What became of the connection. ``after_event_id`` is the last event passed on, None if there is none."""

    name: StateName
    after_event_id: int | None
    reason: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """The consumer asks for the next event, and is thereby done with the one before."""


class Located(msgspec.Struct, frozen=True):
    """A hub was found; it serves this database."""

    db_id: str


class Opened(msgspec.Struct, frozen=True):
    """The WebSocket is open."""


class Greeted(msgspec.Struct, frozen=True):
    """The hello was sent."""


class Received(msgspec.Struct, frozen=True):
    """A message came in."""

    data: str | bytes


class Closed(msgspec.Struct, frozen=True):
    """The WebSocket was closed by the hub, or lost (1006)."""

    code: int
    reason: str = ""


class Failed(msgspec.Struct, frozen=True):
    """No hub was found, or it answered the request for a WebSocket with a refusal."""

    error: ParleyError


class Elapsed(msgspec.Struct, frozen=True):
    """The sleep is over."""


Input = Wanted | Located | Opened | Greeted | Received | Closed | Failed | Elapsed


class Report(msgspec.Struct, frozen=True):
    """Tell the handlers. Done at once."""

    change: StateChange


class Save(msgspec.Struct, frozen=True):
    """The consumer is done with everything up to here. Done at once."""

    cursor: Cursor


class Locate(msgspec.Struct, frozen=True):
    """Look up the hub. Leads to ``Located`` or ``Failed``."""


class Open(msgspec.Struct, frozen=True):
    """Open a WebSocket to it. Leads to ``Opened``, ``Failed`` or ``Closed``."""


class Greet(msgspec.Struct, frozen=True):
    """Send the hello. Leads to ``Greeted`` or ``Closed``."""

    hello: Hello


class Receive(msgspec.Struct, frozen=True):
    """Wait for a message. Leads to ``Received`` or ``Closed``."""


class Sleep(msgspec.Struct, frozen=True):
    """Wait. Leads to ``Elapsed``."""

    seconds: float


class Emit(msgspec.Struct, frozen=True):
    """Hand the event to the consumer. Leads to ``Wanted``."""

    event: EventEnvelope


class Stop(msgspec.Struct, frozen=True):
    """The feed is over. Leads to nothing."""

    error: ParleyError


Immediate = Report | Save
Awaited = Locate | Open | Greet | Receive | Sleep | Emit | Stop
"""``Locate``, ``Open``, ``Sleep`` and ``Stop`` mean as well that an earlier WebSocket is no longer needed."""


class Effects(msgspec.Struct, frozen=True):
    """What to do: some things at once, then one that leads to the next input."""

    then: Awaited
    first: tuple[Immediate, ...] = ()


_RECEIVE = Effects(Receive())


class FeedMachine:
    """One feed, from its first connection to its end. Not for several threads."""

    def __init__(
        self,
        *,
        random: Random,
        cursor: Cursor | None = None,
        after: int | None = None,
        channels: Sequence[str] | None = None,
        topics: Sequence[str] | None = None,
        backoff: Backoff = FEED_BACKOFF,
    ) -> None:
        """``cursor`` wins over ``after``, which belongs to whatever log is met first. No filter means everything."""
        self._random = random
        self._backoff = backoff
        self._db_id = cursor.db_id if cursor is not None else None
        self._last = cursor.event_id if cursor is not None else after
        self._subscriptions: Subscriptions | msgspec.UnsetType = msgspec.UNSET
        if channels is not None or topics is not None:
            self._subscriptions = Subscriptions(list(channels or ()), list(topics or ()))
        self._unsaved: Cursor | None = None
        self._connection: Literal["none", "greeting", "live"] = "none"
        self._reported: StateName | None = None
        self._was_connected = False
        self._failures = 0
        self._refused_tokens = 0
        self._stop: Stop | None = None
        self._begun = False

    @property
    def last_event_id(self) -> int | None:
        """The last event passed on, or the cursor that the feed began with."""
        return self._last

    def handle(self, given: Input) -> Effects:
        """What to do after this happened."""
        if self._stop is not None:
            return Effects(self._stop)
        match given:
            case Received(data):
                return self._received(data)
            case Wanted():
                return self._wanted()
            case Located(db_id):
                return self._located(db_id)
            case Opened():
                self._connection = "greeting"
                return Effects(Greet(Hello(self._last, self._subscriptions)))
            case Greeted():
                return _RECEIVE
            case Closed(code, reason):
                return self._closed(code, reason)
            case Failed(error):
                return self._failed(error)
            case Elapsed():
                return Effects(Locate())

    def processed(self) -> tuple[Immediate, ...]:
        """What to do at once when the consumer says that it is done with the last event."""
        cursor, self._unsaved = self._unsaved, None
        return (Save(cursor),) if cursor is not None else ()

    def _wanted(self) -> Effects:
        if not self._begun:
            self._begun = True
            return Effects(Locate())
        return Effects(_RECEIVE.then, self.processed())

    def _located(self, db_id: str) -> Effects:
        foreign = self._db_id is not None and self._db_id != db_id
        self._db_id = db_id
        if foreign:
            return Effects(Open(), self._reset("the workspace has another database than the cursor was made for"))
        return Effects(Open())

    def _received(self, data: str | bytes) -> Effects:
        try:
            frame = decode_server_frame(data)
        except UNREADABLE as error:
            return _RECEIVE if _is_of_newer_kind(data) else self._lost(f"the hub sent what cannot be read: {error}")
        if isinstance(frame, HelloOk):
            return self._welcomed(frame)
        if self._connection != "live":
            return self._lost("the hub sent an event before its hello_ok")
        if self._last is not None and frame.event_id <= self._last:
            return _RECEIVE
        assert self._db_id is not None
        self._last = frame.event_id
        self._unsaved = Cursor(frame.event_id, self._db_id)
        return Effects(Emit(frame))

    def _welcomed(self, frame: HelloOk) -> Effects:
        if frame.reset and self._last is not None:
            return Effects(Open(), self._reset("the cursor is beyond the end of the log"))
        self._connection = "live"
        self._failures = self._refused_tokens = 0
        name: StateName = "reconnected" if self._was_connected else "connected"
        self._was_connected = True
        return Effects(_RECEIVE.then, self._report(name))

    def _closed(self, code: int, reason: str) -> Effects:
        said = f"closed with {code} {reason}".rstrip()
        if code == TOKEN_REVOKED:
            return self._token_refused(InvalidAuth("The hub no longer takes this token", close_code=code))
        if code == CURSOR_EXPIRED:
            return self._end(self._expired(reason))
        if code in FINAL_CODES:
            return self._end(InvalidInput(f"The hub refused the feed: {reason or code}", close_code=code))
        if code == GOING_AWAY and self._connection == "live":
            self._connection = "none"
            return Effects(Sleep(Backoff(RESTART_SECONDS, RESTART_SECONDS).delay(1, self._random)), self._down(said))
        return self._lost(said)

    def _expired(self, reason: str) -> CursorExpired:
        """The error that the close reason tells: the code, the archive, and the oldest cursor that works."""
        archive, _, oldest = reason.removeprefix(f"{CursorExpired.code}: ").partition(" ")
        text = f"The events after {self._last} were moved to the archive {archive}".rstrip()
        named = {"oldest_cursor": int(oldest)} if oldest.isdecimal() else {}
        return CursorExpired(text, archive=archive, **named, after_event_id=self._last)

    def _failed(self, error: ParleyError) -> Effects:
        if isinstance(error, InvalidAuth | MissingAuth):
            return self._token_refused(error)
        if not error.transient:
            return self._end(error)
        asked = error.retry_after_seconds if isinstance(error, Unavailable | UnknownRefusal) else 0.0
        return self._lost(error.message, asked)

    def _token_refused(self, error: ParleyError) -> Effects:
        # The first refusal may be about a token that was rotated meanwhile; looking up the hub reads the new one.
        self._refused_tokens += 1
        if self._refused_tokens > 1:
            return self._end(error)
        self._connection = "none"
        return Effects(Locate(), self._down(error.message))

    def _lost(self, reason: str, asked_seconds: float = 0.0) -> Effects:
        self._connection = "none"
        self._failures += 1
        delay = max(asked_seconds, self._backoff.delay(self._failures, self._random))
        return Effects(Sleep(delay), self._down(reason))

    def _end(self, error: ParleyError) -> Effects:
        self._connection = "none"
        self._stop = Stop(error)
        return Effects(self._stop, self._down(error.message))

    def _reset(self, reason: str) -> tuple[Immediate, ...]:
        self._connection = "none"
        change = StateChange("reset", self._last, reason)
        self._last = self._unsaved = None
        return (Report(change),)

    def _down(self, reason: str) -> tuple[Immediate, ...]:
        # One loss is told once, however many tries to come back fail.
        return () if self._reported == "disconnected" else self._report("disconnected", reason)

    def _report(self, name: StateName, reason: str = "") -> tuple[Immediate, ...]:
        self._reported = name
        return (Report(StateChange(name, self._last, reason)),)


def _is_of_newer_kind(data: str | bytes) -> bool:
    """Whether this is a message of a type that came after this version; such are ignored."""
    try:
        kind = untrusted_json.decode(data, dict[str, object]).get("type")
    except msgspec.MsgspecError:
        return False
    return isinstance(kind, str) and kind not in ("hello_ok", "event")
