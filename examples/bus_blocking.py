"""Answer requests and take what is published, without an event loop.

Usage: python examples/bus_blocking.py TOPIC

The machine must have been let in (`parley bus pair`), and `parley bus listen` must not run on it.
"""

import sys

from parley.bus import BlockingBus, Message


def shout(message: Message) -> bytes:
    return message.body.upper()


def main(topic: str) -> None:
    with BlockingBus.at_home(topics=[topic], note=print) as bus:
        bus.handle("shout", shout)
        print("listening on port", bus.address.port, flush=True)
        for message in bus.subscribe(topic):
            print(message.peer.hex(), message.body.decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
