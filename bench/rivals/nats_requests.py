"""Requests and replies through NATS, by its own client; run as a program, the one that answers.

Usage: python -m bench.rivals.nats_requests PORT FOLDER
"""

import asyncio
import importlib
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_certificate

from bench.load.bus import ANSWERER, ASKER, SERVER, credentials
from bench.load.ports import lasting_port
from bench.load.process import Process, ServerProcess, find_command
from bench.rivals.nats_jetstream import COMMAND
from parley.bus.home import key_pem

SUBJECT: Final = "echo"
_SECONDS: Final = 60.0
_PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024


class Way(NamedTuple):
    """A way to ask somebody, and the other processes that take part in it."""

    ask: Callable[[bytes], Awaitable[bytes]]
    processes: Sequence[Process]


def is_here() -> bool:
    """Whether there is a server to measure."""
    return find_command(COMMAND) is not None


@asynccontextmanager
async def asking(folder: Path, *, secure: bool) -> AsyncGenerator[Way]:
    """Asks somebody in another process through a server in a third one; ``secure`` is mutual TLS, as on the bus."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs yet
    port = lasting_port()
    config = f"listen: 127.0.0.1:{port}\nmax_payload: {_PAYLOAD_BYTES_MAX}\n"
    if secure:
        config += _show(folder)
    (folder / "nats.conf").write_text(config)
    with ExitStack() as stack:
        command = [find_command(COMMAND) or COMMAND, "-c", str(folder / "nats.conf")]
        server = stack.enter_context(ServerProcess(command, ready="Server is ready", folder=folder))
        program = [sys.executable, "-m", "bench.rivals.nats_requests", str(port), str(folder)]
        answerer = stack.enter_context(ServerProcess(program, ready="ready", folder=Path(__file__).parents[2]))
        client = await _connect(port, folder, ASKER)

        async def ask(body: bytes) -> bytes:
            return (await client.request(SUBJECT, body, timeout=_SECONDS)).data

        try:
            yield Way(ask, [server, answerer])
        finally:
            await client.close()


def _show(folder: Path) -> str:
    """Has the server show a certificate and ask for one; all three are of the same user."""
    for seed in (SERVER, ASKER, ANSWERER):
        made = credentials(seed).certificates
        (folder / f"{seed[0]}.pem").write_bytes(made.pem() + key_pem(seed))
        (folder / "root.pem").write_bytes(load_der_x509_certificate(made.root).public_bytes(Encoding.PEM))
    shown = folder / f"{SERVER[0]}.pem"
    return f'tls {{ cert_file: "{shown}", key_file: "{shown}", ca_file: "{folder}/root.pem", verify: true }}\n'


async def _connect(port: int, folder: Path, seed: bytes) -> Any:
    nats: Any = importlib.import_module("nats")  # installed for measuring alone
    shown = folder / f"{seed[0]}.pem"
    if not shown.exists():
        return await nats.connect(f"nats://127.0.0.1:{port}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(folder / "root.pem")
    context.load_cert_chain(shown)
    return await nats.connect(f"tls://127.0.0.1:{port}", tls=context, tls_hostname="bench")


async def _answer(port: int, folder: Path) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    client = await _connect(port, folder, ANSWERER)

    async def answer(message: Any) -> None:
        await message.respond(message.data)

    await client.subscribe(SUBJECT, cb=answer)
    await client.flush()
    print("ready", flush=True)
    await stopped.wait()
    await client.close()


if __name__ == "__main__":
    asyncio.run(_answer(int(sys.argv[1]), Path(sys.argv[2])))
