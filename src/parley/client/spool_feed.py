"""A feed through the spool: the log is asked for what is new, again and again, in place of a socket.

It stands where a WebSocket stands and speaks the same frames, so the machine behind a feed does not know the
difference; it only learns of an event a little later. Events are chosen on this side, since a channel may be named
before it exists.
"""

import asyncio
import threading
from collections import deque
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from parley.client.refusals import decoded, error_from
from parley.client.runners import AsyncRunner, BlockingRunner
from parley.client.steps import HubAddress, Reply, Request, Steps, exchange
from parley.core.errors import ConnectionFailed, InternalError
from parley.wire.answers import Channels
from parley.wire.entities import Channel, channel_meant
from parley.wire.events import EventEnvelope, EventPage, EventRow, Hello, HelloOk

T = TypeVar("T")
ASK_SECONDS: Final = 0.5
SOCKET_TRIED_EVERY: Final = 8
"""Looks after which the hub's socket is tried: where one can be opened after all, a feed belongs there."""
PAGE: Final = 500
_decode_hello = msgspec.json.Decoder(Hello).decode


class _Conversation:
    """What is asked and what is made of the answers; the shells below send and wait."""

    def __init__(self, address: HubAddress) -> None:
        self._address = address
        self._hello = Hello()
        self._after: int | None = None
        self._channels: list[Channel] = []
        self._chosen: set[str] = set()
        """The ids of the channels that the hello names."""
        self._looks = 0
        self.frames: deque[str] = deque()

    def greet(self, text: str) -> Steps[None]:
        """Takes the client's hello and makes the hub's answer to it."""
        self._hello = _decode_hello(text)
        self._channels = (yield from self._get("/api/v1/channels", Channels)).channels
        self._choose()
        newest = (yield from self._get("/api/v1/events?tail=1", EventPage)).replay_until
        self._after = self._hello.after_event_id
        reset = self._after is not None and self._after > newest
        if reset:
            self._after = None
        self.frames.append(_text(HelloOk(newest, newest, self._address.instance_id, reset)))

    def ask(self) -> Steps[None]:
        """Looks once for what is new. A hub that can be reached by its socket again counts as a lost connection."""
        yield from self._leave_if_the_socket_works()
        cursor = "" if self._after is None else f"&after={self._after}"
        page = yield from self._get(f"/api/v1/events?limit={PAGE}{cursor}", EventPage)
        if page.reset:  # another database took the place of the one that was followed
            raise ConnectionFailed("The log is another one now")
        self._after = page.cursor
        self.frames.extend(_text(_envelope(event)) for event in page.events if self._wants(event))

    def _leave_if_the_socket_works(self) -> Steps[None]:
        self._looks = (self._looks + 1) % SOCKET_TRIED_EVERY
        if self._looks == 0 and self._address.socket_url is not None:
            answered = yield from exchange(Request("GET", f"{self._address.socket_url}/health", {}))
            if isinstance(answered, Reply):
                raise ConnectionFailed("The hub answers at its socket again")

    def _wants(self, event: EventRow) -> bool:
        if event.name == "channel.created":
            self._channels.append(_channel_of(event))
            self._choose()
        wanted = self._hello.subscriptions
        if wanted is UNSET or wanted is None:
            return True
        scope = event.scope
        return scope.channel_id in self._chosen or bool({scope.topic_id, scope.topic_id2} & set(wanted.topics))

    def _choose(self) -> None:
        """Which channels are meant; one that is named before it exists is chosen when it comes."""
        if self._hello.subscriptions:
            meant = (channel_meant(self._channels, each) for each in self._hello.subscriptions.channels)
            self._chosen = {channel.id for channel in meant if channel is not None}

    def _get(self, target: str, kind: type[T]) -> Steps[T]:
        headers = {"Authorization": f"Bearer {self._address.token}"}
        if self._address.agent is not None:
            headers["X-Parley-Agent"] = self._address.agent
        outcome = yield from exchange(Request("GET", self._address.base_url + target, headers))
        if not isinstance(outcome, Reply):
            raise outcome
        if outcome.status >= 300:
            raise error_from(outcome)
        return decoded(outcome.body, kind, f"The answer to GET {target}")


class SpoolFeed:
    """In place of a blocking WebSocket."""

    def __init__(self, address: HubAddress, timeout: float) -> None:
        self._talk = _Conversation(address)
        self._runner = BlockingRunner(timeout)
        self._closed = threading.Event()

    def send(self, text: str) -> None:
        self._runner.run(self._talk.greet(text))

    def recv(self) -> str:
        """The next frame. Another thread may close the feed meanwhile, which counts as a lost connection."""
        while not self._talk.frames:
            if self._closed.is_set():
                raise ConnectionFailed("The feed was closed")
            self._runner.run(self._talk.ask())
            if not self._talk.frames:
                self._closed.wait(ASK_SECONDS)
        return self._talk.frames.popleft()

    def close(self) -> None:
        self._closed.set()
        self._runner.close()


class AsyncSpoolFeed:
    """In place of an asynchronous WebSocket."""

    def __init__(self, address: HubAddress, timeout: float) -> None:
        self._talk = _Conversation(address)
        self._runner = AsyncRunner(timeout)

    async def send(self, text: str) -> None:
        await self._runner.run(self._talk.greet(text))

    async def recv(self) -> str:
        """The next frame."""
        while not self._talk.frames:
            await self._runner.run(self._talk.ask())
            if not self._talk.frames:
                await asyncio.sleep(ASK_SECONDS)
        return self._talk.frames.popleft()

    async def close(self) -> None:
        await self._runner.aclose()


def _text(frame: HelloOk | EventEnvelope) -> str:
    return msgspec.json.encode(frame).decode()


def _channel_of(event: EventRow) -> Channel:
    try:
        return msgspec.convert(event.data_json.get("channel"), Channel)
    except msgspec.ValidationError as error:
        raise InternalError(f"Event {event.event_id} cannot be read: {error}") from error


def _envelope(event: EventRow) -> EventEnvelope:
    return EventEnvelope(event.event_id, event.ts, event.name, event.scope, event.data_json, event.entity)
