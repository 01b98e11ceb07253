"""Talk to the daemon of this user: send messages to other machines, read what arrived, follow what happens.

    from parley.client.daemon import DaemonClient

    with DaemonClient() as daemon:
        daemon.send("bob", "the build is green", client_message_id="build-42")
        for event in daemon.follow():
            print(event.id, event.kind, event.data)

A message is on this machine's disk when ``send`` returns, and may be sent again with the same id: it has one effect.
The daemon is found by its socket; if none is there, ``DaemonNotRunning`` is raised, also when it ends before it has
answered; one that takes too long raises ``DaemonLate``. ``AsyncDaemonClient`` has the same methods to await.
"""

import asyncio
import contextlib
import math
import random as stdlib_random
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack

from parley.client import daemon_calls
from parley.client.backoff import Random
from parley.client.call import Call, Caller, check_header, query_text
from parley.client.daemon_calls import InboxFilters
from parley.client.daemon_events import EventStream, StreamedEvent, parse_events
from parley.client.methods import awaiting, blocking
from parley.client.refusals import answer_of
from parley.client.runners import AsyncRunner, BlockingRunner
from parley.client.steps import Reply, Request, Steps, exchange
from parley.core.daemon_errors import DaemonLate, DaemonNotRunning
from parley.core.errors import AnswerLate, ConnectionFailed, InvalidInput, ParleyError
from parley.core.ids import new_uuid
from parley.core.limits import INBOX_WAIT_SECONDS_MAX
from parley.wire.daemon_answers import InboxPage
from parley.wire.daemon_home import DaemonHome, daemon_home

__all__ = ["AsyncDaemonClient", "DaemonClient", "StreamedEvent", "parse_events"]

T = TypeVar("T")
TIMEOUT_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 60.0
"""A stream says something every few seconds."""
BASE: Final = "http://localhost"
SESSION_HEADER: Final = "x-parley-session"


class Options(TypedDict, total=False):
    """What a client can be made with besides its folder; ``_DaemonClient.__init__`` tells the meaning of each."""

    session: str | None
    timeout: float
    random: Random


class _DaemonClient:
    """What both clients share."""

    def __init__(
        self,
        home: DaemonHome | None = None,
        *,
        session: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        random: Random = stdlib_random.random,
    ) -> None:
        """A client of the daemon in this folder, by default the user's own.

        ``session`` is the token of a session: requests are made in its name. Nothing is connected before the first
        request.
        """
        self.home = home or daemon_home()
        self.session = session
        self.caller = Caller(None, new_uuid)
        self._timeout = timeout
        self._random = random
        self._met = False

    def _perform(self, call: Call[T]) -> Steps[T]:
        with self._reaching():
            outcome = yield from exchange(self._request(call.method, call.path, call.body, call.waits_seconds))
            if not isinstance(outcome, Reply):
                raise outcome
        return answer_of(call, outcome)

    def _wait_for_messages(self, seconds: float, filters: InboxFilters) -> Steps[InboxPage]:
        if not math.isfinite(seconds):
            raise InvalidInput("seconds must be a finite number", field="seconds")
        deadline = time.monotonic() + seconds
        while True:
            left = max(0, min(INBOX_WAIT_SECONDS_MAX, math.ceil(deadline - time.monotonic())))
            waiting: InboxFilters = {**filters, "wait_seconds": left}
            found = yield from self._perform(daemon_calls.inbox(self.caller, **waiting))
            if found.items or time.monotonic() >= deadline:
                return found

    def _begin_session(self, session_id: str, about: dict[str, Any]) -> Steps[str]:
        token = secrets.token_hex(32)
        yield from self._perform(daemon_calls.register_session(self.caller, token, session_id, **about))
        self.session = token
        return token

    def _end_session(self) -> Steps[bool]:
        token = self.session
        if token is None:
            return False
        ended = yield from self._perform(daemon_calls.unregister_session(self.caller, token))
        self.session = None  # not before, so that what failed can be repeated
        return ended.ended

    def _listening(self, stream: EventStream, mesh: str | None) -> Request:
        request = self._request("GET", f"/v1/events{query_text(mesh=mesh)}")
        request.headers.update(stream.headers)
        return request

    def _request(self, method: str, path: str, body: bytes | None = None, waits_seconds: float = 0.0) -> Request:
        headers = {} if self.session is None else {SESSION_HEADER: self.session}
        if body is not None:
            headers["content-type"] = "application/json"
        return Request(method, BASE + path, headers, body, waits_seconds)

    @contextlib.contextmanager
    def _reaching(self) -> Generator[None]:
        check_header(self.session, "session")
        if not self._met:
            _look_for(self.home, self._timeout)
            self._met = True
        try:
            yield
        except AnswerLate as error:
            raise DaemonLate(f"The daemon at {self.home.socket} did not answer in time: {error}") from error
        except ConnectionFailed as error:
            self._met = False
            raise _not_running(self.home, str(error)) from error


class DaemonClient(_DaemonClient):
    """A connection to the daemon's socket that blocks. Close it, or use it as a context manager."""

    def __init__(self, home: DaemonHome | None = None, **options: Unpack[Options]) -> None:
        super().__init__(home, **options)
        self._runner = BlockingRunner(self._timeout, self.home.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connection back."""
        self._runner.close()

    def perform(self, call: Call[T]) -> T:
        """The answer to a call that was described. Raises the error that a refusal stands for."""
        return self._runner.run(self._perform(call))

    def wait_for_messages(self, seconds: float, **filters: Unpack[InboxFilters]) -> InboxPage:
        """The inbox as soon as there is something in it, or as it is when the time is over; filters as of ``inbox``."""
        return self._runner.run(self._wait_for_messages(seconds, filters))

    def begin_session(self, session_id: str, **about: Any) -> str:
        """Makes the requests of this client those of a session that ends with this process; its token.

        ``about`` may be ``display_name``, ``mesh``, ``role``, ``cwd``, ``groups`` and ``pid``.
        """
        return self._runner.run(self._begin_session(session_id, about))

    def end_session(self) -> bool:
        """Ends the client's session. False when there was none."""
        return self._runner.run(self._end_session())

    def events(self, after: int | None = None, mesh: str | None = None) -> Iterator[StreamedEvent]:
        """Events after the cursor, then as they happen, until the daemon ends the stream."""
        yield from self._heard(EventStream(after, self._random), mesh)

    def follow(self, after: int | None = None, mesh: str | None = None) -> Iterator[StreamedEvent]:
        """Events after the cursor, then as they happen, for ever: over restarts of the daemon, each once, in order.

        Raises ``DaemonNotRunning`` only when there is none at the beginning, and ``CursorExpired`` when events after
        the cursor were forgotten. Whoever processes events keeps the ``id`` of the last one, to begin after it.
        """
        stream = EventStream(after, self._random)
        while True:
            error: ParleyError | None = None
            try:
                yield from self._heard(stream, mesh)
            except ParleyError as lost:
                error = lost
            time.sleep(stream.lost(error))

    def _heard(self, stream: EventStream, mesh: str | None) -> Iterator[StreamedEvent]:
        with self._reaching():
            for line in self._runner.lines(self._listening(stream, mesh), SILENCE_SECONDS):
                event = stream.hear(line)
                if event is not None:
                    yield event

    version = blocking(daemon_calls.version)
    health = blocking(daemon_calls.health)
    send = blocking(daemon_calls.send)
    inbox = blocking(daemon_calls.inbox)
    search_inbox = blocking(daemon_calls.search_inbox)
    mark_seen = blocking(daemon_calls.mark_seen)
    delete_message = blocking(daemon_calls.delete_message)
    flush_inbox = blocking(daemon_calls.flush_inbox)
    outbox = blocking(daemon_calls.outbox)
    outbox_row = blocking(daemon_calls.outbox_row)
    requeue = blocking(daemon_calls.requeue)
    drop = blocking(daemon_calls.drop)
    prune_outbox = blocking(daemon_calls.prune_outbox)
    peers = blocking(daemon_calls.peers)
    profile = blocking(daemon_calls.profile)
    topics = blocking(daemon_calls.topics)
    subscribe = blocking(daemon_calls.subscribe)
    unsubscribe = blocking(daemon_calls.unsubscribe)
    sessions = blocking(daemon_calls.sessions)
    own_session = blocking(daemon_calls.own_session)
    meshes = blocking(daemon_calls.meshes)
    found = blocking(daemon_calls.found)
    join = blocking(daemon_calls.join)
    invite = blocking(daemon_calls.invite)
    call = blocking(daemon_calls.call)
    forget = blocking(daemon_calls.forget)
    rotate_keypair = blocking(daemon_calls.rotate_keypair)
    mesh_info = blocking(daemon_calls.mesh_info)
    mesh_log = blocking(daemon_calls.mesh_log)
    rename = blocking(daemon_calls.rename)
    settle = blocking(daemon_calls.settle)
    verify = blocking(daemon_calls.verify)
    safety_number = blocking(daemon_calls.safety_number)
    reload = blocking(daemon_calls.reload)


class AsyncDaemonClient(_DaemonClient):
    """A connection to the daemon's socket, for programs with an event loop."""

    def __init__(self, home: DaemonHome | None = None, **options: Unpack[Options]) -> None:
        super().__init__(home, **options)
        self._runner = AsyncRunner(self._timeout, self.home.socket)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Gives the connection back."""
        await self._runner.aclose()

    async def perform(self, call: Call[T]) -> T:
        """As that of ``DaemonClient``, and so are the methods that follow."""
        return await self._runner.run(self._perform(call))

    async def wait_for_messages(self, seconds: float, **filters: Unpack[InboxFilters]) -> InboxPage:
        """The inbox as soon as there is something in it, or as it is when the time is over."""
        return await self._runner.run(self._wait_for_messages(seconds, filters))

    async def begin_session(self, session_id: str, **about: Any) -> str:
        """Makes the requests of this client those of a session that ends with this process; its token."""
        return await self._runner.run(self._begin_session(session_id, about))

    async def end_session(self) -> bool:
        """Ends the client's session. False when there was none."""
        return await self._runner.run(self._end_session())

    async def events(self, after: int | None = None, mesh: str | None = None) -> AsyncGenerator[StreamedEvent]:
        """Events after the cursor, then as they happen, until the daemon ends the stream."""
        async with contextlib.aclosing(self._heard(EventStream(after, self._random), mesh)) as heard:
            async for event in heard:
                yield event

    async def follow(self, after: int | None = None, mesh: str | None = None) -> AsyncGenerator[StreamedEvent]:
        """Events after the cursor, then as they happen, for ever: over restarts of the daemon, each once, in order."""
        stream = EventStream(after, self._random)
        while True:
            error: ParleyError | None = None
            try:
                async with contextlib.aclosing(self._heard(stream, mesh)) as heard:
                    async for event in heard:
                        yield event
            except ParleyError as lost:
                error = lost
            await asyncio.sleep(stream.lost(error))

    async def _heard(self, stream: EventStream, mesh: str | None) -> AsyncGenerator[StreamedEvent]:
        lines = self._runner.lines(self._listening(stream, mesh), SILENCE_SECONDS)
        with self._reaching():
            async with contextlib.aclosing(lines):
                async for line in lines:
                    event = stream.hear(line)
                    if event is not None:
                        yield event

    version = awaiting(daemon_calls.version)
    health = awaiting(daemon_calls.health)
    send = awaiting(daemon_calls.send)
    inbox = awaiting(daemon_calls.inbox)
    search_inbox = awaiting(daemon_calls.search_inbox)
    mark_seen = awaiting(daemon_calls.mark_seen)
    delete_message = awaiting(daemon_calls.delete_message)
    flush_inbox = awaiting(daemon_calls.flush_inbox)
    outbox = awaiting(daemon_calls.outbox)
    outbox_row = awaiting(daemon_calls.outbox_row)
    requeue = awaiting(daemon_calls.requeue)
    drop = awaiting(daemon_calls.drop)
    prune_outbox = awaiting(daemon_calls.prune_outbox)
    peers = awaiting(daemon_calls.peers)
    profile = awaiting(daemon_calls.profile)
    topics = awaiting(daemon_calls.topics)
    subscribe = awaiting(daemon_calls.subscribe)
    unsubscribe = awaiting(daemon_calls.unsubscribe)
    sessions = awaiting(daemon_calls.sessions)
    own_session = awaiting(daemon_calls.own_session)
    meshes = awaiting(daemon_calls.meshes)
    found = awaiting(daemon_calls.found)
    join = awaiting(daemon_calls.join)
    invite = awaiting(daemon_calls.invite)
    call = awaiting(daemon_calls.call)
    forget = awaiting(daemon_calls.forget)
    rotate_keypair = awaiting(daemon_calls.rotate_keypair)
    mesh_info = awaiting(daemon_calls.mesh_info)
    mesh_log = awaiting(daemon_calls.mesh_log)
    rename = awaiting(daemon_calls.rename)
    settle = awaiting(daemon_calls.settle)
    verify = awaiting(daemon_calls.verify)
    safety_number = awaiting(daemon_calls.safety_number)
    reload = awaiting(daemon_calls.reload)


def _look_for(home: DaemonHome, timeout: float) -> None:
    """Sees whether anybody listens, with a socket of our own: the library leaves one open when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout)
        try:
            probe.connect(str(home.socket))
        except OSError as error:
            raise _not_running(home, str(error.strerror)) from error


def _not_running(home: DaemonHome, problem: str) -> DaemonNotRunning:
    return DaemonNotRunning(f"No daemon answers at {home.socket}: {problem}")
