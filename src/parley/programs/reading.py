"""News out of a workspace's database, without its hub."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from parley.programs.news import EVENTS_MAX, News, Own, gather
from parley.workspace import queries

if TYPE_CHECKING:
    import apsw

_OWN_TOPICS: Final = (
    "SELECT DISTINCT topic_id FROM messages WHERE sender = ? AND topic_id IN (SELECT value FROM json_each(?))"
)
_OWN_MESSAGES: Final = "SELECT id FROM messages WHERE sender = ? AND id IN (SELECT value FROM json_each(?))"


def news_since(
    connection: "apsw.Connection", agent: str, since: int | None, latest: int
) -> tuple[News, dict[str, str]]:
    """What others did after an event, up to the latest, and the titles of the topics. Without an event: lately."""
    if since is None or latest - since > EVENTS_MAX:
        rows = queries.tail_events(connection, until=latest, limit=EVENTS_MAX)
    else:
        rows = queries.read_events(connection, after=since, until=latest, limit=EVENTS_MAX)
    events = [(row.name, row.data_json) for row in rows]
    news = gather(agent, events, _own(connection, agent, events))
    titles = {topic: found.title for topic in news.topics if (found := queries.get_topic(connection, topic))}
    return news, titles


def _own(connection: "apsw.Connection", agent: str, events: Iterable[tuple[str, dict[str, Any]]]) -> Own:
    """Which of the topics and messages that these events speak of are the agent's own."""
    messages = [data.get("message", {}) for name, data in events if name == "message.created"]
    topics = _chosen(connection, _OWN_TOPICS, agent, {message.get("topic_id") for message in messages})
    answered = _chosen(connection, _OWN_MESSAGES, agent, {message.get("reply_to") for message in messages})
    return Own(topics, answered)


def _chosen(connection: "apsw.Connection", statement: str, agent: str, ids: set[Any]) -> frozenset[str]:
    wanted = json.dumps(sorted(each for each in ids if isinstance(each, str)))
    rows: Any = connection.execute(statement, (agent, wanted))
    return frozenset(row[0] for row in rows)
