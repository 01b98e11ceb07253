"""NATS JetStream in a file store that syncs every message before it acknowledges it."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from bench.figures import Sample, figure
from bench.load.hub import content
from bench.load.peer import Peer, UnexpectedReply
from bench.load.ports import lasting_port
from bench.load.process import ServerProcess, find_command
from bench.measure import CONNECTIONS
from bench.measure import measure as measured
from bench.plan import Plan

COMMAND = "nats-server"
SUBJECT = "bench"
_numbers = itertools.count(1)


class NatsPeer(Peer):
    """One connection with an inbox of its own, into which acknowledgements come."""

    def __init__(self, subject: str = SUBJECT) -> None:
        super().__init__()
        self._inbox = f"_INBOX.bench{next(_numbers)}"
        self._subject = subject

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        options = json.dumps({"verbose": False, "pedantic": False})
        self.transport.write(f"CONNECT {options}\r\nSUB {self._inbox} 1\r\n".encode())

    def send(self, request: bytes) -> None:
        """Publishes the request; its acknowledgement is the reply."""
        head = f"PUB {self._subject} {self._inbox} {len(request)}\r\n".encode()
        self.transport.write(head + request + b"\r\n")

    def split(self, data: bytes) -> int:
        line = data.find(b"\r\n")
        if line < 0:
            return 0
        size = int(data[:line].rsplit(b" ", 1)[1]) + 2 if data.startswith(b"MSG ") else 0
        end = line + 2 + size
        return end if len(data) >= end else 0

    def unasked(self, reply: bytes) -> bool:
        if reply.startswith(b"PING"):
            self.transport.write(b"PONG\r\n")
            return True
        return reply.startswith((b"INFO", b"+OK"))


async def measure(folder: Path, plan: Plan) -> dict[str, Any] | None:
    """None where NATS is not installed."""
    command = find_command(COMMAND)
    if command is None:
        return None
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    port = lasting_port()
    config = folder / "nats.conf"
    config.write_text(
        f"listen: 127.0.0.1:{port}\njetstream {{ store_dir: {json.dumps(str(folder))}, sync_interval: always }}\n"
    )
    with ServerProcess([command, "-c", str(config)], ready="Server is ready", folder=folder) as server:
        await _make_stream(port)
        report: dict[str, Any] = {"server": f"{COMMAND} with sync_interval always"}
        for name, connections, count in (("insert_1", 1, plan.insert_1), ("insert_16", CONNECTIONS, plan.insert_16)):
            samples = [await _insert(server, port, connections, count) for _ in range(plan.repeat)]
            report[name] = figure(f"nats_{name}", samples)
        report["memory"] = {"resident_mb": round(server.resident_bytes() / 1e6, 1)}
    return report


async def _make_stream(port: int) -> None:
    settings = {"name": "bench", "subjects": [SUBJECT], "storage": "file", "retention": "limits"}
    _, peer = await asyncio.get_running_loop().create_connection(
        lambda: NatsPeer("$JS.API.STREAM.CREATE.bench"), "127.0.0.1", port
    )
    reply = await peer.call(json.dumps(settings).encode())
    peer.close()
    if b'"error"' in reply:
        raise UnexpectedReply(reply.decode())


async def _insert(server: ServerProcess, port: int, connections: int, count: int) -> Sample:
    """Every message is published with a reply subject, and the next one waits for its acknowledgement."""
    loop = asyncio.get_running_loop()
    peers = [(await loop.create_connection(NatsPeer, "127.0.0.1", port))[1] for _ in range(connections)]
    return await measured(server, peers, [content(number).encode() for number in range(count)], _check)


def _check(reply: bytes) -> None:
    if b'"seq"' not in reply:
        raise UnexpectedReply(reply.decode(errors="replace"))
