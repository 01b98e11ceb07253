"""What Agentlip's TypeScript client and command line send to a hub and read from it.

Its code is not here; its side of the conversation is: the headers that ``fetch`` adds under Bun and under Node, bodies
as ``JSON.stringify`` writes them, the first frame on the feed, the statements that its command line runs on the file,
and the question by which its hub finds out whether a workspace is taken.
"""

import http.client
import http.server
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

DEADLINE_SECONDS: Final = 60
RUNTIMES: Final = {
    "bun": {
        "Connection": "keep-alive",
        "User-Agent": "Bun/1.4.4",
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate, br, zstd",
    },
    "node": {
        "connection": "keep-alive",
        "accept": "*/*",
        "accept-language": "*",
        "sec-fetch-mode": "cors",
        "user-agent": "node",
        "accept-encoding": "gzip, deflate",
    },
}
NULL: Final = type(None)
CHANNEL: Final = {"id": str, "name": str, "description": (str, NULL), "created_at": str}
TOPIC: Final = {"id": str, "channel_id": str, "title": str, "created_at": str, "updated_at": str}
MESSAGE: Final = {
    "id": str,
    "topic_id": str,
    "channel_id": str,
    "sender": str,
    "content_raw": str,
    "version": int,
    "created_at": str,
    "edited_at": (str, NULL),
    "deleted_at": (str, NULL),
    "deleted_by": (str, NULL),
}
ATTACHMENT: Final = {
    "id": str,
    "topic_id": str,
    "kind": str,
    "key": (str, NULL),
    "value_json": dict,
    "dedupe_key": str,
    "source_message_id": (str, NULL),
    "created_at": str,
}
HEALTH: Final = {
    "status": str,
    "instance_id": str,
    "db_id": str,
    "schema_version": int,
    "protocol_version": str,
    "pid": int,
    "uptime_seconds": int,
}
ENVELOPE: Final = {"event_id": int, "ts": str, "name": str, "scope": dict, "entity": dict, "data": dict}
_TAIL: Final = (
    "SELECT id, topic_id, channel_id, sender, content_raw, version, created_at, edited_at, deleted_at, deleted_by"
    " FROM messages WHERE {where} ORDER BY id {order} LIMIT ?"
)


def has_shape(value: Any, shape: dict[str, Any]) -> bool:
    """Whether every member that the client declares is there with its type; it ignores others."""
    return all(name in value and isinstance(value[name], kind) for name, kind in shape.items())


class Reply(NamedTuple):
    """What a call returns: the status and the decoded body."""

    status: int
    body: Any

    @property
    def failure(self) -> tuple[int, str]:
        """What the client makes its error of."""
        assert isinstance(self.body["error"], str)
        return self.status, self.body["code"]


class Server(NamedTuple):
    """``.agentlip/server.json``, as far as the client looks at it."""

    instance_id: str
    db_id: str
    host: str
    port: int
    auth_token: str
    pid: int


def read_server(root: Path) -> Server | None:
    """What the client does first. None is «no hub is running»."""
    try:
        data = json.loads((root / ".agentlip" / "server.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    assert data["instance_id"]
    assert data["db_id"]
    assert data["port"]
    assert data["auth_token"]
    return Server(**{name: data[name] for name in Server._fields})


class Caller:
    """The client's calls and the command line's, which are the same: one request each, JSON in and out."""

    def __init__(self, server: Server, runtime: str = "bun") -> None:
        self.server = server
        self._headers = RUNTIMES[runtime]

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Reply:
        """``fetch`` and then ``JSON.parse`` of the text. A member that is None is ``undefined``: it is left out."""
        headers = {"Authorization": f"Bearer {self.server.auth_token}"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            given = {name: value for name, value in body.items() if value is not None}
            content = json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()
        with closing(
            http.client.HTTPConnection(self.server.host, self.server.port, timeout=DEADLINE_SECONDS)
        ) as connection:
            connection.request(method, path, content, {**headers, **self._headers})
            answer = connection.getresponse()
            return Reply(answer.status, json.loads(answer.read()))

    def create(self, path: str, kind: str, /, **body: Any) -> dict[str, Any]:
        """A call that makes something; the thing."""
        status, answer = self.call("POST", path, body)
        assert status == 201
        assert isinstance(answer["event_id"], int)
        return answer[kind]


@contextmanager
def open_feed(server: Server, after: int = 0, **subscriptions: list[str]) -> Iterator["Feed"]:
    """``wsConnect`` and ``listen``. Both runtimes offer compression and send neither an Origin nor a User-Agent."""
    url = f"ws://{server.host}:{server.port}/ws?token={server.auth_token}"
    with connect(url, user_agent_header=None, proxy=None, max_size=None, open_timeout=DEADLINE_SECONDS) as socket:
        hello: dict[str, Any] = {"type": "hello", "after_event_id": after}
        if subscriptions:
            hello["subscriptions"] = subscriptions
        socket.send(json.dumps(hello, separators=(",", ":")))
        yield Feed(socket)


class Feed:
    """The answer to the hello, and then what the client takes from each event."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.hello_ok = self._receive()

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next events."""
        events = [self._receive() for _ in range(count)]
        for event in events:
            assert event["type"] == "event"
            assert has_shape(event, ENVELOPE)
            assert event["scope"].keys() == {"channel_id", "topic_id", "topic_id2"}
            assert has_shape(event["entity"], {"type": str, "id": str})
        return events

    def take_until(self, event_id: int) -> list[dict[str, Any]]:
        """All events up to this one."""
        events = self.take(1)
        while events[-1]["event_id"] < event_id:
            events += self.take(1)
        return events

    def close_code(self) -> tuple[int, str]:
        """The code and the reason with which the hub ends the feed."""
        with pytest.raises(ConnectionClosed) as raised:
            self._receive()
        frame = raised.value.rcvd
        assert frame is not None
        return frame.code, frame.reason

    def _receive(self) -> dict[str, Any]:
        text = self._socket.recv(DEADLINE_SECONDS)
        assert isinstance(text, str)
        return json.loads(text)


class FileReader:
    """The command line's reads, which go to the file and not to the hub, in the SQLite of another program."""

    def __init__(self, root: Path) -> None:
        self._db = sqlite3.connect(f"file:{root / '.agentlip' / 'db.sqlite3'}?mode=ro", uri=True)
        self._db.row_factory = sqlite3.Row
        for pragma in ("foreign_keys = ON", "busy_timeout = 5000", "synchronous = NORMAL", "query_only = ON"):
            self._db.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        self._db.close()

    def doctor(self) -> dict[str, str]:
        rows = self._rows("SELECT key, value FROM meta WHERE key IN ('db_id', 'schema_version')")
        return {row["key"]: row["value"] for row in rows}

    def channels(self) -> list[dict[str, Any]]:
        return self._rows("SELECT id, name, description, created_at FROM channels ORDER BY name ASC")

    def channel_named(self, name: str) -> list[dict[str, Any]]:
        return self._rows("SELECT id, name, description, created_at FROM channels WHERE name = ?", name)

    def topics(self, channel_id: str, limit: int = 50, offset: int = 0) -> list[dict[str, Any]]:
        return self._rows(
            "SELECT id, channel_id, title, created_at, updated_at FROM topics WHERE channel_id = ?"
            " ORDER BY updated_at DESC LIMIT ? OFFSET ?",
            channel_id,
            limit + 1,
            offset,
        )

    def tail(self, topic_id: str, limit: int = 50) -> list[dict[str, Any]]:
        return self._rows(_TAIL.format(where="topic_id = ?", order="DESC"), topic_id, limit)

    def page_before(self, topic_id: str, message_id: str, limit: int = 50) -> list[dict[str, Any]]:
        return self._rows(_TAIL.format(where="topic_id = ? AND id < ?", order="DESC"), topic_id, message_id, limit)

    def page_after(self, topic_id: str, message_id: str, limit: int = 50) -> list[dict[str, Any]]:
        return self._rows(_TAIL.format(where="topic_id = ? AND id > ?", order="ASC"), topic_id, message_id, limit)

    def attachments(self, topic_id: str, kind: str) -> list[dict[str, Any]]:
        rows = self._rows(
            "SELECT id, topic_id, kind, key, value_json, dedupe_key, source_message_id, created_at"
            " FROM topic_attachments WHERE topic_id = ? AND kind = ? ORDER BY created_at DESC",
            topic_id,
            kind,
        )
        return [{**row, "value_json": json.loads(row["value_json"])} for row in rows]

    def search(self, query: str, limit: int = 50) -> list[dict[str, Any]]:
        (found,) = self._rows("SELECT COUNT(*) as count FROM sqlite_master WHERE type='table' AND name='messages_fts'")
        assert found["count"] == 1
        return self._rows(
            "SELECT m.id, m.topic_id, m.channel_id, m.sender, m.content_raw, m.version, m.created_at, m.edited_at,"
            " m.deleted_at, m.deleted_by FROM messages m JOIN messages_fts fts ON m.rowid = fts.rowid"
            " WHERE messages_fts MATCH ? ORDER BY m.created_at DESC LIMIT ?",
            query,
            limit,
        )

    def _rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in self._db.execute(statement, parameters)]


def taken(root: Path) -> bool:
    """How its hub decides at a start whether another one has the workspace: the lock file, then ``/health``."""
    if not (root / ".agentlip" / "locks" / "writer.lock").exists():
        return False
    server = read_server(root)
    if server is None:
        return False
    reply = Caller(server).call("GET", "/health")
    return reply.status == 200 and reply.body["instance_id"] == server.instance_id


@contextmanager
def hub_of_its_own(root: Path, db_id: str) -> Iterator[Server]:
    """A workspace that is served by Agentlip, as others see it: its lock, its ``server.json`` and its ``/health``."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = {"status": "ok", "schema_version": 1, "protocol_version": "v1", "uptime_seconds": 1}
            body = json.dumps({**health, "instance_id": "other", "db_id": db_id, "pid": os.getpid()}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Not on the terminal."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        server = Server("other", db_id, "127.0.0.1", listening.server_port, "0" * 64, os.getpid())
        more = {"started_at": "2026-02-04T23:30:45.123Z", "protocol_version": "v1", "schema_version": 1}
        text = json.dumps({**server._asdict(), **more}, indent=2)
        (root / ".agentlip" / "server.json").write_text(text, encoding="utf-8")
        (root / ".agentlip" / "locks" / "writer.lock").write_text(f"{os.getpid()}\n2026-02-04T23:30:45.123Z")
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join(DEADLINE_SECONDS)
