"""Reading the log as WebSocket frames, in batches that are bounded in number and in bytes."""

from typing import Final, NamedTuple

import apsw

from parley.serve.websocket import frame_header
from parley.workspace.queries import read_frames

BATCH_BYTES_MAX: Final = 1024 * 1024
"""A batch of large events is cut here, so that a slow reader never holds more than this in memory."""


class Filter(NamedTuple):
    """Which events a feed wants; ``None`` in its place stands for all of them."""

    channels: frozenset[str]
    topics: frozenset[str]
    names: frozenset[str] = frozenset()
    """Of channels that do not exist yet. They match nothing until the feed learns the channel's id."""

    def matches(self, channel_id: str | None, topic_id: str | None, topic_id2: str | None) -> bool:
        return channel_id in self.channels or topic_id in self.topics or topic_id2 in self.topics


class Batch(NamedTuple):
    """Frames ready for the socket, how many they are, and the cursor they lead to."""

    data: bytes
    events: int
    cursor: int


def read_batch(connection: apsw.Connection, after: int, until: int, wanted: Filter | None, limit: int) -> Batch:
    """The next frames after a cursor, at most ``limit``. Its cursor is ``until`` once nothing up to there is left."""
    channels, topics = (None, None) if wanted is None else (wanted.channels, wanted.topics)
    parts: list[bytes] = []
    count = size = 0
    for event_id, text in read_frames(
        connection, after=after, until=until, limit=limit, channels=channels, topics=topics
    ):
        parts += (frame_header(len(text)), text)
        count += 1
        size += len(text)
        after = event_id
        if size >= BATCH_BYTES_MAX:
            break
    else:
        if count < limit:
            after = until
    return Batch(b"".join(parts), count, after)
