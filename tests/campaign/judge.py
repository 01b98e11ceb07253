"""What must hold for a database that went through a crash, whatever kind of crash it was.

Every operation of a campaign carries a tag of its own in what it writes, so the log itself tells how often it took
effect.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import apsw

from parley.core.fold import FoldError, LoggedEvent, differences, fold
from parley.sqlite import foreign_key_check, integrity_check
from parley.workspace import queries
from tests.campaign.holds import hold_problems


class Ack(NamedTuple):
    """What the hub said it has done: the event, what it is about, and the tag of the operation."""

    event_id: int
    name: str
    entity_id: str
    tag: str | None = None


def judge(database: apsw.Connection, acks: Iterable[Ack]) -> list[str]:
    """What is wrong: damage, lost acknowledgements, two effects of one operation, a log that the tables contradict.

    All of it is seen at one moment: a hub that serves may end leases and claims while it is judged.
    """
    database.execute("BEGIN")
    try:
        return _judge(database, acks)
    finally:
        database.execute("ROLLBACK")


def _judge(database: apsw.Connection, acks: Iterable[Ack]) -> list[str]:
    problems = integrity_check(database)
    if problems:
        return [f"damaged: {problem}" for problem in problems]
    problems = [f"a row of {row.table} refers to nothing in {row.parent}" for row in foreign_key_check(database)]
    events = list(queries.logged_events(database))
    by_id = {event.event_id: event for event in events}
    problems += [problem for ack in acks if (problem := _contradiction(ack, by_id.get(ack.event_id)))]
    problems += hold_problems(events)
    effects = Counter(tag for event in events if (tag := tag_of(event)) is not None)
    problems += [f"{tag} took effect {count} times" for tag, count in effects.items() if count > 1]
    try:
        folded = fold(events)
    except FoldError as error:
        return [*problems, f"the log contradicts itself: {error}"]
    found = differences(folded, queries.stored_state(database))
    return problems + [f"log and table disagree: {difference}" for difference in found]


def tag_of(event: LoggedEvent) -> str | None:
    """The tag of the operation that wrote this event: the first word of a content, or a member of what it made."""
    data: Mapping[str, Any] = event.data
    if event.name == "message.created":
        return data["message"]["content_raw"].split(" ", 1)[0]
    if event.name == "message.edited":
        return data["new_content"].split(" ", 1)[0]
    if event.name == "topic.attachment_added":
        return data["attachment"]["value_json"].get("tag")
    if event.name == "task.created":
        return data["task"]["title"]
    if event.name == "task.completed":
        return data["task"]["result"]
    if event.name == "lease.acquired":
        return data["lease"]["reason"]
    return None


def effects_of(database: apsw.Connection, tag: str) -> int:
    """How many events the operation with this tag left in the log."""
    return sum(tag_of(event) == tag for event in queries.logged_events(database))


def _contradiction(ack: Ack, event: LoggedEvent | None) -> str | None:
    if event is None:
        return f"acknowledged, and lost: {ack}"
    if event.name != ack.name:
        return f"acknowledged, and another event has its number: {ack}, {event.name}"
    if ack.tag is not None and tag_of(event) != ack.tag:
        return f"acknowledged, and its content is another one: {ack}, {tag_of(event)}"
    return None
