"""Sending the same thing twice has one effect: the key says what belongs together.

Usage: python examples/send_once.py [FOLDER]

An agent that crashed between sending and noting that it has sent simply sends again, with the same key.
"""

import sys
import uuid

from parley.client import connect, errors


def main(folder: str | None) -> None:
    with connect(folder, start=True, idle_shutdown_ms=60_000, sender="deployer") as client:
        channel = client.create_channel(f"deploys-{uuid.uuid4().hex[:8]}").channel
        topic = client.create_topic(channel.id, "Production").topic
        key = f"deployed-{topic.id}-1.2"

        first = client.send_message(topic.id, "1.2 is live.", client_message_id=key)
        again = client.send_message(topic.id, "1.2 is live.", client_message_id=key)
        print(f"the same message: {again.message.id == first.message.id}, a duplicate: {again.duplicate}")

        try:
            client.send_message(topic.id, "1.3 is live.", client_message_id=key)
        except errors.IdempotencyKeyReused as refusal:
            print(f"another text with the same key: {refusal.code}")
        print(f"messages in the topic: {len(client.tail_messages(topic.id).messages)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
