"""What both clients of a daemon share: the requests as values, and the reading of its stream of events."""

import json
import math
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from parley.client.backoff import FEED_BACKOFF, Random
from parley.client.call import segment
from parley.core.daemon_errors import DaemonNotRunning
from parley.core.errors import ParleyError
from parley.core.limits import INBOX_WAIT_SECONDS_MAX
from parley.wire.daemon_home import DaemonHome

TIMEOUT_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 60.0
"""A stream says something every few seconds."""
BASE: Final = "http://localhost"
SESSION_HEADER: Final = "x-parley-session"


@dataclass(frozen=True, slots=True)
class DaemonCall:
    """One request to the daemon."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Mapping[str, Any] | None = None

    @property
    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.body is None else {"content-type": "application/json"}

    @property
    def params(self) -> dict[str, str]:
        """What is given of the query; None was not."""
        values = {name: value for name, value in self.query.items() if value is not None}
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def send(to: str, message: str, **more: Any) -> DaemonCall:
    """A message to be sent. ``more`` are members of the request's body."""
    given = {name: value for name, value in more.items() if value is not None}
    return DaemonCall("POST", "/v1/send", body={"to": to, "message": message, **given})


def wait_until(deadline: float) -> int:
    """How long the next request for the inbox may wait, of the time that is left."""
    return max(0, min(INBOX_WAIT_SECONDS_MAX, math.ceil(deadline - time.monotonic())))


def mesh_call(method: str, params: Mapping[str, Any] | None, mesh: str | None) -> DaemonCall:
    """A method of a mesh's broker."""
    return DaemonCall("POST", "/v1/mesh/call", body={"method": method, "params": dict(params or {}), "mesh": mesh})


def begin_session(token: str, session_id: str, **about: Any) -> DaemonCall:
    """A session that ends with this process."""
    body = {"token": token, "session_id": session_id, "pid": os.getpid(), **about}
    return DaemonCall("POST", "/v1/sessions/register", body={k: v for k, v in body.items() if v is not None})


def end_session(token: str) -> DaemonCall:
    """The session is over."""
    return DaemonCall("DELETE", f"/v1/sessions/{segment(token)}")


def new_session_token() -> str:
    """A token that nobody else has."""
    return secrets.token_hex(32)


def look_for(home: DaemonHome, timeout: float) -> None:
    """Sees whether anybody listens, with a socket of our own: the library leaves one open when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout)
        try:
            probe.connect(str(home.socket))
        except OSError as error:
            raise not_running(home, str(error.strerror)) from error


def not_running(home: DaemonHome, problem: str) -> DaemonNotRunning:
    """Nobody answers."""
    return DaemonNotRunning(f"No daemon answers at {home.socket}: {problem}")


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
        """An event, if the line ends one. Comments are passed over; a number alone says where the stream begins."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._number = int(value)
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data += value
        elif not line:
            return self._event()
        return None

    def _event(self) -> StreamedEvent | None:
        event = StreamedEvent(self._number, self._kind, json.loads(self._data)) if self._data else None
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


def parse_events(lines: Iterable[str]) -> Iterator[StreamedEvent]:
    """Server-sent events from their lines; comments are passed over."""
    stream = EventStream(None, lambda: 0.0)
    for line in lines:
        event = stream.hear(line)
        if event is not None:
            yield event
