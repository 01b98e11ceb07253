"""A hub that is newer than the tools: what it adds is ignored, and a protocol that it does not share is named."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec

from parley.wire.server_file import ServerFile
from parley.workspace import discovery
from parley.workspace.reading import open_reading
from tests.mcp.agents import agent

TIME = "2027-01-01T00:00:00.000Z"


@contextmanager
def newer_hub(root: Path, protocol: str) -> Iterator[list[str]]:
    """Something that answers in the place of a hub, as one of a later year might; the requests that it got."""
    asked: list[str] = []
    workspace = discovery.at(root)
    with open_reading(workspace) as reading:
        db_id = reading.db_id
    health = {
        "status": "ok",
        "instance_id": "later",
        "db_id": db_id,
        "schema_version": 1,
        "protocol_version": protocol,
        "pid": 1,
        "uptime_seconds": 1,
        "mood": "fine",
    }
    message = {
        "id": "msg_1",
        "topic_id": "topic_1",
        "channel_id": "ch_1",
        "sender": "ann",
        "content_raw": "hi",
        "version": 1,
        "created_at": TIME,
        "colour": "green",
    }
    agent_row = {
        "name": "ann",
        "program": None,
        "model": None,
        "session": None,
        "state": "active",
        "registered_at": TIME,
        "last_seen_at": TIME,
        "hat": "straw",
    }
    answers = {
        "/health": health,
        "/api/v1/messages": {"message": message, "event_id": 7, "thanks": True},
        "/api/v1/agents": {"agent": agent_row, "event_id": 8},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer()

        def do_PATCH(self) -> None:
            self.do_POST()

        def _answer(self) -> None:
            asked.append(self.path)
            known = answers.get(self.path, answers["/api/v1/agents"])
            body = json.dumps(known).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    hint = ServerFile("later", db_id, server.server_port, "127.0.0.1", "token", 1, TIME)
    workspace.server_file.write_bytes(msgspec.json.encode(hint))
    try:
        yield asked
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        workspace.server_file.unlink()


async def test_what_a_newer_hub_adds_is_ignored(root: Path) -> None:
    with newer_hub(root, "v1") as asked:
        async with agent(root, name="ann") as client:
            posted = await client.call("post", topic="topic_1", content="hi")
            assert (posted["message_id"], posted["event_id"]) == ("msg_1", 7)
        assert "/api/v1/messages" in asked


async def test_a_protocol_of_another_version_is_named_and_no_second_hub_is_started(root: Path) -> None:
    with newer_hub(root, "v2") as asked:
        async with agent(root, name="ann") as client:
            refusal = await client.refused("post", topic="topic_1", content="hi")
            assert (refusal["code"], refusal["transient"]) == ("HUB_NOT_RUNNING", False)
            assert "speaks protocol v2" in refusal["error"]
            assert "pip install -U parley-mesh" in refusal["hint"]
        assert set(asked) == {"/health"}
