"""Agents of one user that ask and answer over real TLS; run as a program, one that answers in a process of its own.

Usage: python -m bench.load.bus FOLDER (memory|sqlite)
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Final

from bench.load.process import ServerProcess
from parley.bus import EVERYTHING, Bus, Fingerprint, Identity, MeshStore, Message, certify, fingerprint_of
from parley.bus.memory_store import MemoryMeshStore
from parley.bus.sqlite_store import SqliteMeshStore
from parley.bus.static_resolver import StaticResolver
from parley.bus.store_file import StoreIdentity
from parley.bus.tls_contexts import Credentials
from parley.bus.tls_transport import TlsTransport
from parley.bus.transport import Address
from parley.bus.x509 import make_certificates
from parley.core.clock import SystemClock
from parley.core.sealing import public_key

TOPIC: Final = "echo"
STORES: Final = ("memory", "sqlite")
_HOST: Final = "127.0.0.1"
_DAY_MS: Final = 86_400_000
_USER, ASKER, ANSWERER, SERVER = (bytes([number]) * 32 for number in range(1, 5))


class Answerer(ServerProcess):
    """An agent in a process of its own that sends back what it is asked."""

    def __init__(self, folder: Path, store: str) -> None:
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "bench.load.bus", str(folder), store]
        super().__init__(command, ready="port", folder=Path(__file__).parents[2])
        self.address = Address(_HOST, json.loads(self.output[-1])["port"])


async def join(seed: bytes, folder: Path, store: str, peers: dict[Fingerprint, Address]) -> Bus:
    """The bus of the agent with this seed, which finds these peers."""
    now = SystemClock().now_ms()
    chain = certify(_USER, public_key(seed), role="bench", caveats=EVERYTHING, now_ms=now)
    return await Bus.bind_with(
        Identity(seed, chain),
        store=_store(seed, folder, store),
        resolver=StaticResolver({peer: [address] for peer, address in peers.items()}),
        transport=TlsTransport(credentials(seed), host=_HOST),
    )


def credentials(seed: bytes) -> Credentials:
    """What the agent with this seed shows."""
    now = SystemClock().now_ms()
    made = make_certificates(_USER, public_key(seed), issued_at_ms=now, expires_at_ms=now + _DAY_MS)
    return Credentials(seed, made)


def name_of(seed: bytes) -> Fingerprint:
    """The fingerprint of the agent with this seed."""
    return fingerprint_of(public_key(seed))


def _store(seed: bytes, folder: Path, store: str) -> MeshStore:
    if store == "memory":
        return MemoryMeshStore()
    return SqliteMeshStore(folder / "bus.db", StoreIdentity(name_of(seed), name_of(_USER)))


async def _echo(message: Message) -> bytes:
    return message.body


async def _answer(folder: Path, store: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with await join(ANSWERER, folder, store, {}) as bus:
        bus.handle(TOPIC, _echo)
        print(json.dumps({"port": bus.address.port}), flush=True)
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(_answer(Path(sys.argv[1]), sys.argv[2]))
