"""Talk to the daemon of this user: send messages to other machines, read what arrived, follow what happens.

    from parley.client.daemon import DaemonClient

    with DaemonClient() as daemon:
        daemon.send("bob", "the build is green", client_message_id="build-42")
        for event in daemon.events():
            print(event.id, event.kind, event.data)

A message is on this machine's disk when ``send`` returns, and may be sent again with the same id: it has one effect.
The daemon is found by its socket; if none answers, ``DaemonNotRunning`` is raised.
"""

import contextlib
import json
import socket
from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple, Self

from parley.client.refusals import error_from
from parley.client.steps import Reply
from parley.core.daemon_errors import DaemonNotRunning
from parley.wire.daemon_home import DaemonHome, daemon_home

TIMEOUT_SECONDS = 30.0
_BASE = "http://localhost"


class StreamedEvent(NamedTuple):
    """One event of the daemon's log. ``id`` is the cursor after it; None for what the log does not hold."""

    id: int | None
    kind: str
    data: dict[str, Any]


class DaemonClient:
    """A connection to the daemon's socket. Close it, or use it as a context manager."""

    def __init__(self, home: DaemonHome | None = None) -> None:
        import httpx

        self.home = home or daemon_home()
        self._met = False
        transport = httpx.HTTPTransport(uds=str(self.home.socket))
        self._http = httpx.Client(base_url=_BASE, transport=transport, timeout=TIMEOUT_SECONDS, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connection back."""
        self._http.close()

    def send(
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
        body = {
            "to": to,
            "message": message,
            "priority": priority,
            "meta": dict(meta or {}),
            "reply_to_id": reply_to_id,
            "mentions": mentions or [],
            "to_session": to_session,
            "client_message_id": client_message_id,
            "mesh": mesh,
        }
        return self.post("/v1/send", body)

    def inbox(self, **filters: Any) -> dict[str, Any]:
        """What arrived: ``mesh``, ``since``, ``topic``, ``from``, ``limit``, ``unread_only``, ``mark_seen``."""
        return self.get("/v1/inbox", **filters)

    def outbox(self, **filters: Any) -> dict[str, Any]:
        """What was to be sent: ``status``, ``mesh``, ``limit``."""
        return self.get("/v1/outbox", **filters)

    def peers(self, mesh: str | None = None) -> list[dict[str, Any]]:
        """Who is in the meshes."""
        return self.get("/v1/peers", mesh=mesh)["peers"]

    def call(self, method: str, params: Mapping[str, Any] | None = None, mesh: str | None = None) -> dict[str, Any]:
        """Calls a method of the mesh's broker; ``member`` in ``params`` may be a name."""
        return self.post("/v1/mesh/call", {"method": method, "params": dict(params or {}), "mesh": mesh})

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """A read."""
        return self._request("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Anything else."""
        return self._request("POST", path, body=body)

    def delete(self, path: str, **query: Any) -> dict[str, Any]:
        """A removal."""
        return self._request("DELETE", path, query=query)

    def events(self, after: int | None = None, mesh: str | None = None) -> Iterator[StreamedEvent]:
        """Events after the cursor, then as they happen, until the daemon ends the stream."""
        import httpx

        headers = {} if after is None else {"last-event-id": str(after)}
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=60.0)  # the daemon says something every few seconds
        with (
            self._reaching(),
            self._http.stream(
                "GET", "/v1/events", params=_given({"mesh": mesh}), headers=headers, timeout=timeout
            ) as answer,
        ):
            if answer.status_code != 200:
                raise error_from(Reply(answer.status_code, answer.read(), answer.headers.get("retry-after")))
            yield from parse_events(answer.iter_lines())

    def _request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        with self._reaching():
            answer = self._http.request(method, path, params=_given(query or {}), content=content, headers=headers)
        if not answer.is_success:
            raise error_from(Reply(answer.status_code, answer.content, answer.headers.get("retry-after")))
        return json.loads(answer.content)

    def _look(self) -> None:
        """Sees whether anybody listens, with a socket of our own: the library leaves one open when nobody does."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(TIMEOUT_SECONDS)
            try:
                probe.connect(str(self.home.socket))
            except OSError as error:
                raise DaemonNotRunning(f"No daemon answers at {self.home.socket}: {error.strerror}") from error
        self._met = True

    @contextlib.contextmanager
    def _reaching(self) -> Generator[None]:
        import httpx

        if not self._met:
            self._look()
        try:
            yield
        except httpx.TransportError as error:
            self._met = False
            raise DaemonNotRunning(f"No daemon answers at {self.home.socket}: {error}") from error


def parse_events(lines: Iterator[str]) -> Iterator[StreamedEvent]:
    """Server-sent events from their lines; comments are passed over."""
    number: int | None = None
    kind, data = "message", ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            number = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data += value
        elif not line and data:
            yield StreamedEvent(number, kind, json.loads(data))
            number, kind, data = None, "message", ""


def _given(query: Mapping[str, Any]) -> dict[str, str]:
    values = {name: value for name, value in query.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
