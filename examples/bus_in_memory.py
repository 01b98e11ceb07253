"""Two agents of one user ask, answer and publish on a bus.

Usage: python examples/bus_in_memory.py

Both live in one process and talk over a network in memory, as in a test of your own program.
"""

import asyncio
import time

from parley.bus import EVERYTHING, Bus, Identity, MemoryNetwork, Message, StaticResolver, certify, fingerprint_of
from parley.core.sealing import new_key, public_key


async def main() -> None:
    user, network, resolver = new_key(), MemoryNetwork(), StaticResolver()

    async def join(role: str) -> Bus:
        seed = new_key()
        chain = certify(user, public_key(seed), role=role, caveats=EVERYTHING, now_ms=time.time_ns() // 1_000_000)
        transport = network.transport(fingerprint_of(public_key(seed)))
        bus = await Bus.bind(Identity(seed, chain), resolver=resolver, transport=transport)
        resolver.announce(bus.fingerprint, bus.address)
        return bus

    async def build(message: Message) -> bytes:
        return b"built " + message.body

    async with await join("builder") as builder, await join("reviewer") as reviewer:
        builder.handle("build", build)
        print((await reviewer.request(builder.fingerprint, "build", b"main")).decode())

        async with reviewer.subscribe("news") as news:
            await reviewer.connect(builder.fingerprint)
            await builder.publish_to(reviewer.fingerprint, "news", b"the build is green")
            print((await anext(news)).body.decode())


if __name__ == "__main__":
    asyncio.run(main())
