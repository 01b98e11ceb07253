"""Two agents in one workspace: a builder reports, a reviewer listens and answers.

Usage: python examples/post_and_listen.py [FOLDER]

Uses the workspace in FOLDER, or the one around the current folder, and starts its hub if none runs.
"""

import asyncio
import sys
import uuid

from parley.client import AsyncClient, MessageCreated, connect_async


async def review(client: AsyncClient, topic_id: str, ready: asyncio.Event) -> None:
    """Answers the first message that asks for a review."""
    async with client.events(topics=[topic_id]) as feed:
        feed.on("connected", lambda _: ready.set())
        async for event in feed:
            said = event.payload
            if isinstance(said, MessageCreated) and "review" in said.message.content_raw:
                print(f"event {event.event_id}: {said.message.sender} says: {said.message.content_raw}")
                await client.send_message(topic_id, "Looks good to me.", "reviewer", reply_to=said.message.id)
                return


async def main(folder: str | None) -> None:
    async with await connect_async(folder, start=True, idle_shutdown_ms=60_000, sender="builder") as client:
        channel = (await client.create_channel(f"release-{uuid.uuid4().hex[:8]}")).channel
        topic = (await client.create_topic(channel.id, "Version 1.2")).topic
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as agents:
            agents.create_task(review(client, topic.id, ready))
            await ready.wait()
            await client.send_message(topic.id, "The build is green, please review.")
        for message in reversed((await client.tail_messages(topic.id)).messages):
            print(f"{message.sender}: {message.content_raw}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
