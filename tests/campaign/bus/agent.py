"""Run as a program: a machine on the bus that is told on standard input what to publish, and may be killed at any time.

Usage: python -m tests.campaign.bus.agent FOLDER (HOST PORT | mdns) [forgetful | before=METHOD | after=METHOD]

Each line of input is a message as JSON; each line of output says what became of one. What handlers do is appended to
``handled`` in the folder, in single writes that outlive the process. ``forgetful`` is the control: it does not take up
what was accepted and not handled before it was killed. With ``before`` or ``after`` it kills itself there, when the
method of its store is called.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from parley.bus.bus import Bus
from parley.bus.dispatch import Dispatcher
from parley.bus.home import BusHome
from parley.bus.node import Listening, joined
from parley.bus.sqlite_store import SqliteMeshStore
from parley.bus.subscription import Message
from parley.core.bus_errors import BusError

TOPIC = "news"
HANDLED = "handled"
SLOW = b"slow"
"""A body that takes its handler until the process is killed, the first time."""


async def main(folder: Path, where: list[str]) -> None:
    host, port = (None, None) if where[0] == "mdns" else (where[0], int(where[1]))
    listening = Listening(frozenset({TOPIC}), host, port)
    log = os.open(folder / HANDLED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(step: str, message: Message) -> None:
        line = [step, os.getpid(), message.redelivered, message.message_id.hex(), message.peer.hex()]
        os.write(log, json.dumps([*line, message.body.decode()]).encode() + b"\n")

    async def hear(message: Message) -> None:
        note("began", message)
        if message.body == SLOW and not message.redelivered:
            await asyncio.get_running_loop().create_future()
        note("returned", message)

    async with joined(BusHome(folder), listening=listening, mdns=where[0] == "mdns", note=lambda _: None) as node:
        node.bus.subscribe(TOPIC, hear)
        say({"agent": node.bus.fingerprint.hex(), "port": node.bus.address.port})
        await obey(node.bus)


async def obey(bus: Bus) -> None:
    """Until nobody tells it anything any more."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    working: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(bus, json.loads(line)))
        working.add(task)
        task.add_done_callback(working.discard)


async def answer(bus: Bus, asked: dict[str, Any]) -> None:
    if asked["do"] == "rest":
        outbox, inbox = await bus.outbox(), await bus.inbox()
        unsent = [each.message_id.hex() for each in outbox.waiting if each.wedged is None]
        told = [each.message_id.hex() for each in (*outbox.waiting, *outbox.expired)]
        return say({"do": "rest", "unsent": len(unsent), "unhandled": len(inbox), "told": sorted({*told} - {*unsent})})
    try:
        peer, message_id = bytes.fromhex(asked["to"]), bytes.fromhex(asked["id"])
        delivery = await bus.publish_to(peer, TOPIC, asked["body"].encode(), message_id=message_id)  # type: ignore[arg-type]
        say({"do": "say", "id": asked["id"], "outcome": delivery.outcome})
    except BusError as error:
        say({"do": "say", "id": asked["id"], "outcome": "failed", "why": error.code})


def say(text: dict[str, Any]) -> None:
    os.write(1, json.dumps(text).encode() + b"\n")


async def forget(self: Dispatcher) -> None:
    """What ``Dispatcher.load`` must not be."""


def die_at(when: str, method: str) -> None:
    """Ends this process with SIGKILL before the store does this, or once it has."""
    does = getattr(SqliteMeshStore, method)

    async def do_and_die(self: SqliteMeshStore, *args: Any, **more: Any) -> Any:
        if when == "after":
            await does(self, *args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(SqliteMeshStore, method, do_and_die)


if __name__ == "__main__":
    when, _, method = sys.argv[-1].partition("=")
    if when == "forgetful":
        Dispatcher.load = forget  # type: ignore[method-assign]
    elif method:
        die_at(when, method)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
