"""Take what is published on a topic by other machines of yours.

Usage: python examples/bus_on_a_lan.py TOPIC

The machine must have been let in (`parley bus request`), and `parley bus listen` must not run on it.
"""

import asyncio
import sys

from parley.bus.home import bus_home
from parley.bus.node import Listening, joined


async def main(topic: str) -> None:
    listening = Listening(frozenset({topic}))
    async with joined(bus_home(), listening=listening, mdns=True, note=print) as node:
        print("listening on port", node.bus.address.port, flush=True)
        async with node.bus.subscribe(topic) as messages:
            async for message in messages:
                print(message.peer.hex(), message.body.decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
