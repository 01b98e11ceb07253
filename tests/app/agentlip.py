"""An Agentlip hub, as far as another program can see it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import msgspec

from parley.wire.server_file import ServerFile
from parley.workspace.layout import Workspace
from tests.workspace.databases import AGENTLIP_DB_ID


@contextmanager
def agentlip_answers(workspace: Workspace) -> Iterator[None]:
    """What an Agentlip hub shows of itself: its health, its ``server.json`` and the file that is its lock."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            about = {"status": "ok", "db_id": AGENTLIP_DB_ID, "instance_id": "i", "pid": os.getpid()}
            body = json.dumps({**about, "schema_version": 1, "protocol_version": "v1", "uptime_seconds": 1})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as listening:
        Thread(target=listening.serve_forever, args=(0.01,)).start()
        server = ServerFile("i", AGENTLIP_DB_ID, listening.server_port, "127.0.0.1", "t", os.getpid(), "")
        workspace.server_file.write_bytes(msgspec.json.encode(server))
        workspace.server_file.chmod(0o600)
        (workspace.lock.parent / "writer.lock").write_text(f"{os.getpid()}\n")
        try:
            yield
        finally:
            listening.shutdown()
