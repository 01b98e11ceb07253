"""What a plugin is given and what it returns, and the lines that carry both between a hub and its worker.

The same types stand on both sides. A plugin may also return plain dicts of the same shape; what it returns is believed
only after ``validate`` has looked at it.
"""

from typing import Any, Final

import msgspec

from parley.wire.entities import Span
from parley.wire.requests import AttachmentKey, DedupeKey, Kind

ERROR_CHARS_MAX: Final = 2_000
"""Of what a plugin says about its own failure: it is stored with the job and stands in the log."""


class Message(msgspec.Struct, frozen=True):
    """The message that a plugin looks at."""

    id: str
    topic_id: str
    channel_id: str
    sender: str
    content_raw: str
    version: int
    created_at: str
    edited_at: str | None = None
    reply_to: str | None = None


class Enrichment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a linkifier found in a part of the content. The span counts characters (code points), its end excluded."""

    kind: Kind
    span: Span
    data: dict[str, Any] = {}


class Attachment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an extractor adds to the message's topic, once per kind, key and dedupe key."""

    kind: Kind
    value_json: dict[str, Any]
    key: AttachmentKey | None = None
    dedupe_key: DedupeKey | None = None


class Task(msgspec.Struct, frozen=True):
    """The first line that a worker reads: what to load, and how to call it."""

    entry: str
    path: str | None
    """The module's file; None for one that the interpreter finds by its name."""
    function: str
    config: dict[str, Any]
    output_bytes: int


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line that a worker writes, numbered: 0 when it runs, 1 when the plugin is loaded, then one per message."""

    number: int
    error: str | None = None
    results: list[Any] | None = None
