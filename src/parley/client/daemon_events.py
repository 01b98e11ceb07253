"""The reading of a daemon's stream of events, without a socket: lines go in, events come out."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, cast

import msgspec

from parley.client.backoff import FEED_BACKOFF, Random
from parley.core.daemon_errors import DaemonNotRunning
from parley.core.errors import InternalError, ParleyError
from parley.core.untrusted_json import decode_by

_NUMBER: Final = re.compile(r"[0-9]{1,19}")


class StreamedEvent(NamedTuple):
    """One event of the daemon's log. ``id`` is the cursor after it; None for what the log does not hold."""

    id: int | None
    kind: str
    data: dict[str, Any]


class EventStream:
    """Where a stream of events is: its lines go in, events come out, and after a loss it tells how to go on."""

    def __init__(self, after: int | None, random: Random) -> None:
        self.after = after
        """The number of the last event that was heard of; None before the daemon has said where it begins."""
        self._random = random
        self._met = False
        self._failures = 0
        self._number: int | None = None
        self._kind, self._data = "message", ""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.after is None else {"last-event-id": str(self.after)}

    def hear(self, line: str) -> StreamedEvent | None:
        """An event, if the line ends one. Comments are passed over; a number alone says where the stream begins.

        Raises ``InternalError`` for what no daemon says.
        """
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._number = _number(value)
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data += value
        elif not line:
            return self._event()
        return None

    def _event(self) -> StreamedEvent | None:
        event = StreamedEvent(self._number, self._kind, _object(self._data)) if self._data else None
        if self._number is not None:
            self.after, self._met, self._failures = self._number, True, 0
        self._number, self._kind, self._data = None, "message", ""
        return event

    def lost(self, error: ParleyError | None) -> float:
        """How long to wait before it is opened again. Raises the error when that cannot help, or nobody was there."""
        if error is not None and not (error.transient and (self._met or not isinstance(error, DaemonNotRunning))):
            raise error
        self._number, self._kind, self._data = None, "message", ""
        self._failures += 1
        return FEED_BACKOFF.delay(self._failures, self._random)


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise InternalError("The stream cannot be read: an event's id is not a number")
    return int(text)


def _object(text: str) -> dict[str, Any]:
    try:
        value: Any = decode_by(json.loads, text)
    except msgspec.DecodeError as error:
        raise InternalError(f"The stream cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise InternalError("The stream cannot be read: an event's data is not an object")
    return cast("dict[str, Any]", value)


def parse_events(lines: Iterable[str]) -> Iterator[StreamedEvent]:
    """Server-sent events from their lines; comments are passed over."""
    stream = EventStream(None, lambda: 0.0)
    for line in lines:
        event = stream.hear(line)
        if event is not None:
            yield event
