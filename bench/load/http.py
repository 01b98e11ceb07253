"""HTTP/1.1 with keep-alive on a raw socket: enough of it to drive the hub, and no more."""

import asyncio
import json
from typing import Any

from bench.load.peer import Peer, UnexpectedReply

_END = b"\r\n\r\n"


class HttpPeer(Peer):
    """A keep-alive connection. Replies carry ``Content-Length``."""

    def split(self, data: bytes) -> int:
        head_end = data.find(_END)
        if head_end < 0:
            return 0
        head = data[:head_end].lower()
        at = head.find(b"\r\ncontent-length:")
        length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at > 0 else 0
        end = head_end + 4 + length
        return end if len(data) >= end else 0


def request(method: str, path: str, token: str, body: Any = None, **headers: str) -> bytes:
    """The bytes of a request with a JSON body. ``idempotency_key="k"`` becomes the header ``Idempotency-Key: k``."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + _END + content


def status(reply: bytes) -> int:
    return int(reply[9:12])


def json_body(reply: bytes) -> Any:
    return json.loads(reply[reply.index(_END) + 4 :])


def check_success(reply: bytes) -> None:
    """Raises ``UnexpectedReply`` unless the status is 2xx."""
    if reply[9:10] != b"2":
        raise UnexpectedReply(reply[:500].decode(errors="replace"))


async def connect(host: str, port: int) -> HttpPeer:
    _, peer = await asyncio.get_running_loop().create_connection(HttpPeer, host, port)
    return peer
