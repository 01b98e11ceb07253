"""Reading a workspace straight from its file: no hub, no token, no connection.

Usage: python examples/read_without_hub.py [FOLDER]

Works while a hub runs, after it has stopped, and from a read-only copy.
"""

import sys

from parley.client import Client


def main(folder: str | None) -> None:
    with Client(folder) as client:
        for channel in client.list_channels().channels:
            for topic in client.list_topics(channel.id).topics:
                newest = client.tail_messages(topic.id, limit=1).messages
                print(f"{channel.name} / {topic.title}: {newest[0].content_raw if newest else 'empty'}")
        log = client.read_events(tail=1)
        print(f"the newest event is {log.replay_until}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
