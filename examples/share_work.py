"""Working through open tasks: claim one, reserve what it touches, say what came of it.

Usage: python examples/share_work.py [FOLDER]

Any number of these may run at once: each task is done by one of them, and none writes where another works.
"""

import sys
import uuid

from parley.client import connect, errors


def main(folder: str | None) -> None:
    with connect(folder, start=True, idle_shutdown_ms=60_000) as client:
        me = client.join("share-work", session=uuid.uuid4().hex)
        channel = client.create_channel(f"work-{uuid.uuid4().hex[:8]}").channel
        for title in ("Tidy the guide", "Name the errors"):
            client.create_task(title, channel_id=channel.id)

        while (task := client.claim_next_task(channel_id=channel.id).task) is not None:
            try:
                lease = client.acquire_lease([f"{channel.name}/**"], reason=task.title).lease
            except errors.LeaseConflict as conflict:
                client.release_task(task.id, task.generation, reason=str(conflict))
                continue
            client.send_message(task.id, "On it.")  # the task's id stands for its topic
            client.complete_task(task.id, task.generation, "done")
            client.release_lease(lease.id, lease.generation)
            print(f"done: {task.title}")

        client.leave(reason="nothing left to do")
        print(f"{me.name} is {client.get_agent(me.name).agent.state}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
