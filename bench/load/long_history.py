"""A workspace with a long history, made without a hub: what the pipeline is measured on.

Going through a hub would take an hour for what is wanted here, so events and tables are written straight to the file,
as a hub would have left them; a test folds the log and compares. Each twenty events hold eleven new messages, four
edits, a deletion, a move, two findings of a plugin and an attachment, all of it about those messages. One edit in forty
is about a message from long ago.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.load.hub import content
from parley.core.clock import SystemClock, iso
from parley.core.limits import TOMBSTONE
from parley.core.settings import Settings
from parley.hub.lifecycle import prepare_database
from parley.sqlite import checkpoint_once, open_writer
from parley.workspace import discovery, queries
from parley.workspace.layout import Workspace

BLOCK: Final = 20
NEW_IN_BLOCK: Final = 11
AGENTS: Final = 24
TOPICS: Final = 400
CHANNEL: Final = "ch_1"
_PLACES: Final = 1 + TOPICS
"""Events before the first block: the channel and the topics."""
DAYS: Final = 30
"""Over how many days the history is spread, whatever its length."""
START_MS: Final = 1_767_571_200_000  # Monday, 2026-01-05
_DAY_MS: Final = 86_400_000
_CHUNK_BLOCKS: Final = 5_000
_CONTENT, _VERSION, _EDITED, _DELETED, _DELETED_BY = 4, 5, 7, 8, 9
"""Places in a message's row."""
_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MESSAGE: Final = "INSERT INTO messages VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_EDIT: Final = "UPDATE messages SET content_raw = ?, edited_at = ?, version = 2 WHERE id = ?"
_TOUCH: Final = "UPDATE topics SET updated_at = ? WHERE id = ?"
_ENRICHMENT: Final = (
    "INSERT INTO enrichments (id, message_id, kind, span_start, span_end, data_json, created_at, plugin_name)"
    " VALUES (?, ?, 'code_ref', 0, 7, ?, ?, 'links')"
)
_ATTACHMENT: Final = "INSERT INTO topic_attachments VALUES (?, ?, 'url', NULL, ?, ?, ?, ?)"


class LongHistory:
    """Writes events block by block; ``extend`` may be called again to let the history go on, also in a later run."""

    def __init__(self, folder: Path, *, events_planned: int) -> None:
        """``events_planned`` sets the pace: that many events fill ``DAYS`` days."""
        folder.mkdir(parents=True, exist_ok=True)
        self.workspace: Workspace = discovery.create(folder)
        prepare_database(self.workspace, Settings(), SystemClock())
        self._step_ms = DAYS * _DAY_MS / events_planned
        self._db = open_writer(self.workspace.db)
        self._db.pragma("synchronous", "off")  # what is made here can be made again
        self.events = queries.latest_event_id(self._db)
        self._block = max(self.events - _PLACES, 0) // BLOCK
        self._young: dict[int, list[Any]] = {}
        """Messages of this block and the one before, which may still change."""
        self._changed_late: list[Any] = []
        self._found: list[Any] = []
        self._attached: list[Any] = []
        self._touched: dict[str, str] = {}
        if not self.events:
            with self._db:
                self._make_places()

    def extend(self, events: int) -> None:
        """Lets at least this many more events happen."""
        last = self._block + -(-events // BLOCK)
        while self._block < last:
            with self._db:
                self._db.executemany(_EVENT, self._happen(min(self._block + _CHUNK_BLOCKS, last)))
                self._db.executemany(_MESSAGE, [tuple(self._young.pop(number)) for number in list(self._young)])
                self._db.executemany(_EDIT, self._changed_late)
                self._db.executemany(_ENRICHMENT, self._found)
                self._db.executemany(_ATTACHMENT, self._attached)
                self._db.executemany(_TOUCH, [(ts, topic) for topic, ts in self._touched.items()])
            for rows in (self._changed_late, self._found, self._attached, self._touched):
                rows.clear()
            checkpoint_once(self._db, "truncate")  # as a hub does all the while: no reader finds a log of gigabytes

    def close(self) -> None:
        """Leaves one file behind, as a clean stop does."""
        checkpoint_once(self._db, "truncate")
        self._db.close()

    def _make_places(self) -> None:
        ts = iso(START_MS)
        self._db.execute("INSERT INTO channels VALUES (?, 'work', NULL, ?)", (CHANNEL, ts))
        channel = f'{{"channel":{{"id":"{CHANNEL}","name":"work","description":null,"created_at":"{ts}"}}}}'
        self._db.execute(_EVENT, self._event(ts, "channel.created", "channel", CHANNEL, channel))
        for number in range(TOPICS):
            topic = _topic(number)
            self._db.execute("INSERT INTO topics VALUES (?, ?, ?, ?, ?)", (topic, CHANNEL, topic, ts, ts))
            told = (
                f'{{"topic":{{"id":"{topic}","channel_id":"{CHANNEL}","title":"{topic}",'
                f'"created_at":"{ts}","updated_at":"{ts}"}}}}'
            )
            self._db.execute(_EVENT, self._event(ts, "topic.created", "topic", topic, told, topic))

    def _happen(self, stop: int) -> Iterator[tuple[Any, ...]]:
        """The events of the blocks up to ``stop``, one by one, as the messages change."""
        while self._block < stop:
            block, self._block = self._block, self._block + 1
            first = block * NEW_IN_BLOCK
            for slot in range(NEW_IN_BLOCK):
                yield self._create(first + slot)
            for slot in range(3):
                yield self._edit(first + slot)
            yield self._edit_late(block // 2 * NEW_IN_BLOCK + 8) if block % 10 == 0 and block else self._edit(first + 3)
            yield self._delete(first + 4)
            yield self._move(first + 5)
            yield self._enrich(first + 6)
            yield self._enrich(first + 7)
            yield self._attach(first + 9)

    def _create(self, number: int) -> tuple[Any, ...]:
        ts, topic, text = self._now(), _topic(number % TOPICS), content(number)
        message, sender = f"msg_{number:010}", f"agent-{number * 7 % AGENTS}"
        answers = f'"msg_{number - TOPICS:010}"' if number % 3 == 0 and number >= TOPICS else "null"
        self._young[number] = [message, topic, CHANNEL, sender, text, 1, ts, None, None, None, json.loads(answers)]
        self._touched[topic] = ts
        data = (
            f'{{"message":{{"id":"{message}","topic_id":"{topic}","channel_id":"{CHANNEL}","sender":"{sender}",'
            f'"content_raw":"{text}","version":1,"created_at":"{ts}","edited_at":null,"deleted_at":null,'
            f'"deleted_by":null,"reply_to":{answers}}}}}'
        )
        return self._event(ts, "message.created", "message", message, data, topic)

    def _edit(self, number: int) -> tuple[Any, ...]:
        ts, row = self._now(), self._young[number]
        row[_CONTENT], row[_VERSION], row[_EDITED] = f"edited: {row[_CONTENT]}", 2, ts
        return self._edited(ts, number)

    def _edit_late(self, number: int) -> tuple[Any, ...]:
        """An edit of a message that was written to the table long ago, and never changed before."""
        ts = self._now()
        self._changed_late.append((f"edited: {content(number)}", ts, f"msg_{number:010}"))
        return self._edited(ts, number)

    def _edited(self, ts: str, number: int) -> tuple[Any, ...]:
        message, old = f"msg_{number:010}", content(number)
        data = f'{{"message_id":"{message}","old_content":"{old}","new_content":"edited: {old}","version":2}}'
        return self._event(ts, "message.edited", "message", message, data, _topic(number % TOPICS))

    def _delete(self, number: int) -> tuple[Any, ...]:
        ts, row = self._now(), self._young[number]
        row[_CONTENT], row[_VERSION], row[_EDITED], row[_DELETED], row[_DELETED_BY] = TOMBSTONE, 2, ts, ts, "person"
        data = f'{{"message_id":"{row[0]}","deleted_by":"person","version":2}}'
        return self._event(ts, "message.deleted", "message", row[0], data, row[1])

    def _move(self, number: int) -> tuple[Any, ...]:
        ts, row = self._now(), self._young[number]
        old, new = row[1], _topic((number + 1) % TOPICS)
        row[1], row[_VERSION] = new, 2
        self._touched[old] = self._touched[new] = ts
        data = (
            f'{{"message_id":"{row[0]}","old_topic_id":"{old}","new_topic_id":"{new}","channel_id":"{CHANNEL}",'
            '"mode":"one","version":2}'
        )
        return self._event(ts, "message.moved_topic", "message", row[0], data, old, new)

    def _enrich(self, number: int) -> tuple[Any, ...]:
        ts, row, enrichment = self._now(), self._young[number], f"enr_{number:010}"
        found = f'{{"path":"src/part_{number % 97}.py"}}'
        self._found.append((enrichment, row[0], found, ts))
        data = (
            f'{{"message_id":"{row[0]}","plugin_name":"links","enrichments":[{{"kind":"code_ref",'
            f'"span":{{"start":0,"end":7}},"data":{found}}}],"enrichment_ids":["{enrichment}"],"version":1}}'
        )
        return self._event(ts, "message.enriched", "message", row[0], data, row[1])

    def _attach(self, number: int) -> tuple[Any, ...]:
        ts, row, attachment = self._now(), self._young[number], f"att_{number:010}"
        value = f'{{"url":"https://example.com/{number}"}}'
        self._attached.append((attachment, row[1], value, f"url-{number}", row[0], ts))
        data = (
            f'{{"attachment":{{"id":"{attachment}","topic_id":"{row[1]}","kind":"url","key":null,"value_json":{value},'
            f'"dedupe_key":"url-{number}","source_message_id":"{row[0]}","created_at":"{ts}"}}}}'
        )
        return self._event(ts, "topic.attachment_added", "attachment", attachment, data, row[1])

    def _now(self) -> str:
        return iso(START_MS + int(self.events * self._step_ms))

    def _event(
        self, ts: str, name: str, kind: str, entity: str, data: str, topic: str | None = None, topic2: str | None = None
    ) -> tuple[Any, ...]:
        self.events += 1
        return (self.events, ts, name, CHANNEL, topic, topic2, kind, entity, data)


def _topic(number: int) -> str:
    return f"topic_{number:05}"
