"""The real hub, started by its own command in a folder of its own, and the requests that the driver sends it."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from bench.load.feed import Subscriber, Tally, subscribe
from bench.load.http import HttpPeer, check_success, connect, json_body, request
from bench.load.process import Process, ServerProcess

MESSAGE_BYTES = 200
_WORDS = "agents talk and remember while the build runs and every test that failed tells why it did so "


class Hub:
    """One hub process and how to reach it."""

    def __init__(self, folder: Path, *, config: str = "", launch: Callable[[Path], Process] | None = None) -> None:
        """Starts the hub of ``folder``, by its command or by ``launch``; ``config`` is the text of ``parley.toml``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "parley.toml").write_text(config)
        self.folder = folder
        self.process = (launch or by_command)(folder)
        server = json.loads((folder / ".parley" / "server.json").read_text())
        self.host, self.port, self.token = server["host"], server["port"], server["auth_token"]

    @property
    def database(self) -> Path:
        return self.folder / ".parley" / "db.sqlite3"

    async def connect(self, count: int) -> list[HttpPeer]:
        return [await connect(self.host, self.port) for _ in range(count)]

    async def subscribe(self, tally: Tally, *, after: int) -> Subscriber:
        return await subscribe(self.host, self.port, self.token, after=after, tally=tally)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        return request(method, path, self.token, body, **headers)

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One request on a connection of its own; the JSON of a successful answer."""
        peer = await connect(self.host, self.port)
        try:
            reply = await peer.call(self.request(method, path, body, **headers))
        finally:
            peer.close()
        check_success(reply)
        return json_body(reply)

    async def make_topics(self, channel: str, *titles: str) -> list[str]:
        """A new channel with these topics; the topics' ids."""
        made = await self.ask("POST", "/api/v1/channels", {"name": channel})
        channel_id = made["channel"]["id"]
        topics = [await self.ask("POST", "/api/v1/topics", {"channel_id": channel_id, "title": t}) for t in titles]
        return [topic["topic"]["id"] for topic in topics]

    def messages(self, topic_id: str, count: int, text: Callable[[int], str] | None = None) -> list[bytes]:
        """Requests that post ``count`` messages of ``MESSAGE_BYTES`` bytes, made before the clock starts."""
        text = text or content
        bodies = ({"topic_id": topic_id, "sender": "bench", "content_raw": text(number)} for number in range(count))
        return [self.request("POST", "/api/v1/messages", body) for body in bodies]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()


def by_command(folder: Path, environment: Mapping[str, str] | None = None) -> ServerProcess:
    """A hub as a user starts it, without rate limits."""
    argv = [sys.executable, "-m", "parley", "up", "--json", "--no-rate-limit", "--workspace", str(folder)]
    return ServerProcess(argv, ready='"running"', folder=folder, environment=environment)


def content(number: int) -> str:
    """Text of exactly ``MESSAGE_BYTES`` bytes, with words that differ from message to message."""
    start = number % len(_WORDS)
    text = f"message {number} of build {number % 977}: " + _WORDS[start:] + _WORDS * 3
    return text[:MESSAGE_BYTES]
