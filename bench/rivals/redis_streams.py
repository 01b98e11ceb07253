"""Redis Streams with every append synced to disk: what a stream costs in a server written for nothing else."""

import asyncio
import time
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

COMMAND = "redis-server"
READ_COUNT = 1_000
_END = b"+PONG\r\n"
_PING = b"*1\r\n$4\r\nPING\r\n"


class RedisPeer(Peer):
    """One connection; a reply is one bulk string or one line."""

    def split(self, data: bytes) -> int:
        line = data.find(b"\r\n")
        if line < 0:
            return 0
        end = line + 2 + (int(data[1:line]) + 2 if data[:1] == b"$" else 0)
        return end if len(data) >= end else 0


class ReadingPeer(Peer):
    """One connection whose commands are followed by a PING: the pong ends the reply, whatever is in it."""

    def split(self, data: bytes) -> int:
        return len(data) if data.endswith(_END) else 0


async def measure(folder: Path, plan: Plan) -> dict[str, Any] | None:
    """None where Redis is not installed."""
    command = find_command(COMMAND)
    if command is None:
        return None
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    port = lasting_port()
    options = {"port": port, "bind": "127.0.0.1", "dir": folder, "appendonly": "yes", "appendfsync": "always"}
    argv = [command, *(part for name, value in options.items() for part in (f"--{name}", str(value))), "--save", ""]
    with ServerProcess(argv, ready="Ready to accept connections", folder=folder) as server:
        report: dict[str, Any] = {"server": f"{COMMAND} with appendfsync always"}
        for name, connections, count in (("insert_1", 1, plan.insert_1), ("insert_16", CONNECTIONS, plan.insert_16)):
            samples = [await _insert(server, port, connections, count) for _ in range(plan.repeat)]
            report[name] = figure(f"redis_{name}", samples)
        filled = await _insert(server, port, CONNECTIONS, plan.history, stream="history")
        report["fill_16"] = figure("redis_fill_16", [filled])
        report["replay"] = figure("redis_replay", [await _replay(server, port, plan) for _ in range(plan.repeat)])
        report["memory"] = {"resident_mb": round(server.resident_bytes() / 1e6, 1)}
    return report


async def _insert(server: ServerProcess, port: int, connections: int, count: int, stream: str = "bench") -> Sample:
    loop = asyncio.get_running_loop()
    peers = [(await loop.create_connection(RedisPeer, "127.0.0.1", port))[1] for _ in range(connections)]
    requests = [_command("XADD", stream, "*", "content", content(number)) for number in range(count)]
    return await measured(server, peers, requests, _check)


async def _replay(server: ServerProcess, port: int, plan: Plan) -> Sample:
    """Reads the stream in turns of a thousand, as its clients do."""
    _, peer = await asyncio.get_running_loop().create_connection(ReadingPeer, "127.0.0.1", port)
    cpu, start = server.cpu_seconds(), time.perf_counter()
    cursor, seen = "0", 0
    while seen < plan.history:
        reply = await peer.call(_command("XRANGE", "history", f"({cursor}", "+", "COUNT", str(READ_COUNT)) + _PING)
        got = reply.count(b"$7\r\ncontent\r\n")
        if not got:
            raise UnexpectedReply(reply[:200].decode(errors="replace"))
        seen += got
        entry = reply.rindex(b"*2\r\n$7\r\ncontent\r\n")  # the line before the last entry's fields is its id
        cursor = reply[:entry].rsplit(b"\r\n", 2)[-2].decode()
    seconds, cpu = time.perf_counter() - start, server.cpu_seconds() - cpu
    peer.close()
    return {"events": seen, "seconds": round(seconds, 3), "cpu_us": round(cpu / seen * 1e6, 2)}


def _command(*words: str) -> bytes:
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)


def _check(reply: bytes) -> None:
    if not reply.startswith(b"$"):
        raise UnexpectedReply(reply.decode(errors="replace"))
