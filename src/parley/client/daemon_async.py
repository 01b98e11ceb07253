"""The daemon's client for programs with an event loop: the methods of ``DaemonClient``, to be awaited.

from parley.client.daemon_async import AsyncDaemonClient

async with AsyncDaemonClient() as daemon:
    await daemon.send("bob", "the build is green", client_message_id="build-42")
    async for event in daemon.follow():
        print(event.id, event.kind, event.data)
"""

import asyncio
import contextlib
import json
import random as stdlib_random
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any, Self

from parley.client import daemon_calls
from parley.client.backoff import Random
from parley.client.daemon_calls import (
    BASE,
    SESSION_HEADER,
    SILENCE_SECONDS,
    TIMEOUT_SECONDS,
    DaemonCall,
    EventStream,
    StreamedEvent,
    look_for,
    not_running,
    wait_until,
)
from parley.client.refusals import error_from
from parley.client.steps import Reply
from parley.core.errors import ParleyError
from parley.wire.daemon_home import DaemonHome, daemon_home

__all__ = ["AsyncDaemonClient", "StreamedEvent"]


class AsyncDaemonClient:
    """A connection to the daemon's socket. Close it, or use it as a context manager.

    ``session`` is the token of a session: requests are made in its name.
    """

    def __init__(
        self,
        home: DaemonHome | None = None,
        *,
        session: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        random: Random = stdlib_random.random,
    ) -> None:
        import httpx

        self.home = home or daemon_home()
        self._random = random
        self._met = False
        self._timeout = timeout
        transport = httpx.AsyncHTTPTransport(uds=str(self.home.socket))
        self._http = httpx.AsyncClient(base_url=BASE, transport=transport, timeout=timeout, trust_env=False)
        if session is not None:
            self._http.headers[SESSION_HEADER] = session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Gives the connection back."""
        await self._http.aclose()

    async def send(
        self,
        to: str,
        message: str,
        *,
        mesh: str | None = None,
        priority: str = "next",
        meta: Mapping[str, Any] | None = None,
        reply_to_id: str | None = None,
        mentions: list[str] | None = None,
        to_session: str | None = None,
        client_message_id: str | None = None,
    ) -> dict[str, Any]:
        """Takes a message to a member, ``#topic``, ``@group`` or ``*``; it is on disk when this returns."""
        return await self.perform(
            daemon_calls.send(
                to,
                message,
                mesh=mesh,
                priority=priority,
                meta=dict(meta or {}),
                reply_to_id=reply_to_id,
                mentions=mentions,
                to_session=to_session,
                client_message_id=client_message_id,
            )
        )

    async def inbox(self, **filters: Any) -> dict[str, Any]:
        """What arrived: ``mesh``, ``since``, ``topic``, ``from``, ``limit``, ``unread_only``, ``mark_seen``."""
        return await self.get("/v1/inbox", **filters)

    async def wait_for_messages(self, seconds: float, **filters: Any) -> dict[str, Any]:
        """The inbox as soon as there is something in it, or as it is when the time is over; filters as of ``inbox``."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.inbox(wait_seconds=wait_until(deadline), **filters)
            if found["items"] or time.monotonic() >= deadline:
                return found

    async def outbox(self, **filters: Any) -> dict[str, Any]:
        """What was to be sent: ``status``, ``mesh``, ``limit``, and ``reached`` to learn who has it."""
        return await self.get("/v1/outbox", **filters)

    async def peers(self, mesh: str | None = None) -> list[dict[str, Any]]:
        """Who is in the meshes."""
        return (await self.get("/v1/peers", mesh=mesh))["peers"]

    async def profile(self, mesh: str | None = None, **changes: Any) -> dict[str, Any]:
        """Tells of oneself: ``status``, ``summary``, ``title``, ``bio``, ``avatar``, ``capabilities``,
        ``visible``."""
        return await self.post("/v1/profile", {"mesh": mesh, **changes})

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, mesh: str | None = None
    ) -> dict[str, Any]:
        """Calls a method of the mesh's broker; ``member`` in ``params`` may be a name."""
        return await self.perform(daemon_calls.mesh_call(method, params, mesh))

    async def begin_session(self, session_id: str, **about: Any) -> str:
        """Makes the requests of this client those of a session that ends with this process; its token.

        ``about`` may be ``display_name``, ``mesh``, ``role``, ``cwd``, ``groups`` and ``pid``.
        """
        token = daemon_calls.new_session_token()
        await self.perform(daemon_calls.begin_session(token, session_id, **about))
        self._http.headers[SESSION_HEADER] = token
        return token

    async def end_session(self) -> bool:
        """Ends the client's session. False when there was none."""
        token = self._http.headers.pop(SESSION_HEADER, None)
        return token is not None and bool((await self.perform(daemon_calls.end_session(token)))["ended"])

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        """A read."""
        return await self.perform(DaemonCall("GET", path, query))

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Anything else."""
        return await self.perform(DaemonCall("POST", path, body=body))

    async def delete(self, path: str, **query: Any) -> dict[str, Any]:
        """A removal."""
        return await self.perform(DaemonCall("DELETE", path, query))

    async def perform(self, call: DaemonCall) -> dict[str, Any]:
        """The answer to a request. Raises the error that a refusal stands for."""
        with self._reaching():
            answer = await self._http.request(
                call.method, call.path, params=call.params, content=call.content, headers=call.headers
            )
        if not answer.is_success:
            raise error_from(Reply(answer.status_code, answer.content, answer.headers.get("retry-after")))
        return json.loads(answer.content)

    async def events(self, after: int | None = None, mesh: str | None = None) -> AsyncGenerator[StreamedEvent]:
        """Events after the cursor, then as they happen, until the daemon ends the stream."""
        async with contextlib.aclosing(self._heard(EventStream(after, self._random), mesh)) as heard:
            async for event in heard:
                yield event

    async def follow(self, after: int | None = None, mesh: str | None = None) -> AsyncGenerator[StreamedEvent]:
        """Events after the cursor, then as they happen, for ever: over restarts of the daemon, each once, in order.

        Raises ``DaemonNotRunning`` only when there is none at the beginning, and ``CursorExpired`` when events after
        the cursor were forgotten. Whoever processes events keeps the ``id`` of the last one, to begin after it.
        """
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
        import httpx

        call = DaemonCall("GET", "/v1/events", {"mesh": mesh})
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=SILENCE_SECONDS)
        opening = self._http.stream("GET", call.path, params=call.params, headers=stream.headers, timeout=timeout)
        with self._reaching():
            async with opening as answer:
                if answer.status_code != 200:
                    raise error_from(Reply(answer.status_code, await answer.aread(), answer.headers.get("retry-after")))
                async for line in answer.aiter_lines():
                    event = stream.hear(line)
                    if event is not None:
                        yield event

    @contextlib.contextmanager
    def _reaching(self) -> Generator[None]:
        import httpx

        if not self._met:
            look_for(self.home, self._timeout)
            self._met = True
        try:
            yield
        except httpx.TransportError as error:
            self._met = False
            raise not_running(self.home, str(error)) from error
