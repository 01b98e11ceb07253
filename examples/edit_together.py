"""Two agents keep one message up to date without overwriting each other.

Usage: python examples/edit_together.py [FOLDER]

A change names the version that it was decided on. Whoever was slower gets a conflict, reads again and decides anew.
"""

import sys
import uuid

from parley.client import Client, connect, errors


def tick(client: Client, message_id: str, task: str) -> None:
    """Marks one task of a checklist as done, whoever else is editing it."""
    while True:
        message = client.get_message(message_id).message
        text = message.content_raw.replace(f"[ ] {task}", f"[x] {task}")
        try:
            client.edit_message(message_id, text, expected_version=message.version)
            return
        except errors.VersionConflict as conflict:
            print(f"{task}: somebody was faster, the version is {conflict.details['current_version']} now")


def main(folder: str | None) -> None:
    with connect(folder, start=True, idle_shutdown_ms=60_000, sender="planner") as client:
        channel = client.create_channel(f"plans-{uuid.uuid4().hex[:8]}").channel
        topic = client.create_topic(channel.id, "Release").topic
        plan = client.send_message(topic.id, "[ ] build\n[ ] test\n[ ] ship").message

        client.edit_message(plan.id, plan.content_raw.replace("[ ] build", "[x] build"), expected_version=1)
        try:
            client.edit_message(plan.id, "decided on the first version", expected_version=1)
        except errors.VersionConflict as conflict:
            print(f"too late: {conflict}")
        tick(client, plan.id, "test")
        print(client.get_message(plan.id).message.content_raw)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
