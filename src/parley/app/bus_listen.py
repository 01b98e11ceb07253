"""``parley bus listen``: this machine on the bus until it is told to stop."""

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parley.app.bus_operations import perform, told_body
from parley.app.bus_socket import serving
from parley.bus.bus import Bus
from parley.bus.home import bus_home
from parley.bus.node import Listening, joined
from parley.bus.options import SpoolPolicy
from parley.bus.subscription import Message
from parley.core import limits
from parley.core.errors import InvalidInput

Tell = Callable[[dict[str, Any]], None]


def listen(
    topics: Sequence[str],
    answers: Sequence[str],
    *,
    host: str | None,
    port: int | None,
    spool: SpoolPolicy | None = None,
    mdns: bool,
    ready: Tell,
    tell: Tell,
    note: Callable[[str], None],
) -> None:
    """Tells ``ready`` once where it listens, and ``tell`` each message; returns after SIGINT or SIGTERM.

    An answer is ``TOPIC=COMMAND``: the command gets each request on the topic on its standard input, and what it prints
    is the reply.
    """
    commands = dict(map(_split, answers))
    asyncio.run(
        _listen(Listening(frozenset(topics), host, port, spool), commands, mdns=mdns, ready=ready, tell=tell, note=note)
    )


async def _listen(
    listening: Listening,
    commands: Mapping[str, list[str]],
    *,
    mdns: bool,
    ready: Tell,
    tell: Tell,
    note: Callable[[str], None],
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)

    async def show(message: Message) -> None:
        try:
            await asyncio.to_thread(tell, _told(message))
        except BrokenPipeError:  # nobody reads any more: it stays in the inbox
            stopped.set()
            raise

    home = bus_home()
    async with joined(home, listening=listening, mdns=mdns, note=note) as node:
        for topic in sorted(listening.topics):
            node.bus.subscribe(topic, show)
        for topic, command in commands.items():
            _answer(node.bus, topic, command)
        async with serving(home, lambda operation: perform(node, operation)):
            host, port = node.bus.address
            ready(
                {
                    "agent": node.bus.fingerprint.hex(),
                    "host": host,
                    "port": port,
                    "pid": os.getpid(),
                    "topics": sorted(listening.topics),
                    "answers": sorted(commands),
                }
            )
            await stopped.wait()


def _answer(bus: Bus, topic: str, command: Sequence[str]) -> None:
    async def run(message: Message) -> bytes:
        about = {"PARLEY_BUS_PEER": message.peer.hex(), "PARLEY_BUS_TOPIC": topic}
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ, **about}
        )
        try:
            async with asyncio.timeout(limits.BUS_REQUEST_SECONDS_MAX):
                said, _ = await process.communicate(message.body)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}")
        return said

    bus.handle(topic, run)


def _split(answer: str) -> tuple[str, list[str]]:
    topic, equals, text = answer.partition("=")
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise InvalidInput(f"the command for {topic!r} cannot be read: {error}", field="answer") from error
    if not (topic and equals and command):
        raise InvalidInput(f"{answer!r} is no TOPIC=COMMAND", field="answer")
    return topic, command


def _told(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "agent": message.peer.hex(),
        "message_id": message.message_id.hex(),
        "redelivered": message.redelivered,
        **told_body(message.body),
    }
