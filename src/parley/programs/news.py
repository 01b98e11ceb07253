"""What is new for an agent, in one line: how much, from whom, where. Never what it says.

The line goes straight into an agent's context, so nothing in it may be mistaken for an instruction: names and titles,
which others chose, are short, without line breaks and in quotes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

EVENTS_MAX: Final = 1_000
"""Of more than so many events only the newest are counted."""
_NAMES_MAX: Final = 3
_NAME_CHARS_MAX: Final = 32
_TITLE_CHARS_MAX: Final = 40
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\"“”`<>]+")


@dataclass(slots=True)
class News:
    """What others did since an agent was last told."""

    agent: str
    messages: int = 0
    for_agent: int = 0
    senders: dict[str, None] = field(default_factory=dict[str, None])
    topics: dict[str, None] = field(default_factory=dict[str, None])
    """Ids, the newest last."""
    tasks: int = 0
    lost: list[str] = field(default_factory=list[str])
    """What the agent held and holds no more, in words."""

    @property
    def is_empty(self) -> bool:
        return not (self.messages or self.tasks or self.lost)

    @property
    def is_pressing(self) -> bool:
        """Whether it concerns the agent so much that it should not stop before it knows."""
        return bool(self.for_agent or self.lost)


def gather(agent: str, events: Iterable[tuple[str, Mapping[str, Any]]], own: "Own") -> News:
    """What of these events, each a name and a payload, is news to this agent."""
    news = News(agent)
    for name, data in events:
        if name == "message.created":
            _message(news, data.get("message"), own)
        elif name == "task.created":
            news.tasks += data.get("actor") != agent
        elif name in _LOSSES:
            _loss(news, name, data)
    return news


@dataclass(frozen=True, slots=True)
class Own:
    """What makes a message one for the agent: a topic in which it has written, or a message of its own."""

    topics: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()


def line(news: News, titles: Mapping[str, str]) -> str:
    """The one line. ``titles`` are those of the topics."""
    parts: list[str] = []
    if news.messages:
        parts.append(_messages_part(news, titles))
    if news.tasks:
        parts.append(f"{news.tasks} new task{'s' * (news.tasks > 1)}")
    parts += news.lost[:_NAMES_MAX]
    if len(news.lost) > _NAMES_MAX:
        parts.append(f"{len(news.lost) - _NAMES_MAX} more of your claims and leases ended")
    return (
        f"Parley: {'; '.join(parts)}. You are {_quoted(news.agent, _NAME_CHARS_MAX)}; "
        "look with the inbox tool when it suits your work."
    )


def _messages_part(news: News, titles: Mapping[str, str]) -> str:
    count = f"{news.messages} new message{'s' * (news.messages > 1)}"
    if news.for_agent:
        count += f" ({news.for_agent} for you)"
    senders = _listed([_quoted(name, _NAME_CHARS_MAX) for name in news.senders])
    topics = _listed([_quoted(titles.get(topic, topic), _TITLE_CHARS_MAX) for topic in reversed(news.topics)])
    return f"{count} from {senders} in {topics}"


def _message(news: News, row: Any, own: Own) -> None:
    message = _object(row)
    if not message or message.get("sender") == news.agent:
        return
    news.messages += 1
    news.senders[str(message.get("sender"))] = None
    topic = str(message.get("topic_id"))
    news.topics.pop(topic, None)
    news.topics[topic] = None
    mentioned = re.search(rf"(?<!\w)@{re.escape(news.agent)}(?![\w-])", str(message.get("content_raw")), re.IGNORECASE)
    if mentioned or topic in own.topics or message.get("reply_to") in own.messages:
        news.for_agent += 1


_LOSSES: Final = frozenset({"task.taken_over", "task.expired", "task.released", "lease.expired", "lease.released"})


def _loss(news: News, name: str, data: Mapping[str, Any]) -> None:
    """A claim or a lease that ended without the agent's doing."""
    kind = name.partition(".")[0]
    row = _object(data.get(kind))
    if data.get("actor") == news.agent:
        return
    if kind == "task" and data.get("previous_holder") == news.agent:
        ended = (
            f"was taken over by {_quoted(str(row.get('holder')), _NAME_CHARS_MAX)}" if row.get("holder") else "ended"
        )
        news.lost.append(f"your claim of task {_quoted(str(row.get('title')), _TITLE_CHARS_MAX)} {ended}")
    elif kind == "lease" and row.get("holder") == news.agent:
        patterns: Any = row.get("patterns")
        paths = ", ".join(map(str, cast("list[Any]", patterns))) if isinstance(patterns, list) else ""
        news.lost.append(f"your lease of {_quoted(paths, _TITLE_CHARS_MAX)} ended")


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _listed(names: list[str]) -> str:
    shown = names[:_NAMES_MAX]
    if len(names) > _NAMES_MAX:
        return f"{', '.join(shown)} and {len(names) - _NAMES_MAX} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _quoted(text: str, chars_max: int) -> str:
    plain = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return f'"{plain if len(plain) <= chars_max else plain[: chars_max - 1] + "…"}"'
