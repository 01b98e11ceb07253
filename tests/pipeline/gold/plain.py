"""The rules of gold in plain Python, one message after the other: what Spark's answers are compared with."""

from collections.abc import Sequence
from typing import Any

from tests.pipeline.gold.worlds import MINUTE_MS, Post


def plain_answers(posts: Sequence[Post], window_ms: int) -> list[tuple[Any, ...]]:
    """(hub, question, answer, kind, is first, latency) of every answer."""
    found: list[tuple[Any, ...]] = []
    for place, question in enumerate(posts):
        if question.deleted:
            continue
        others = [each for each in posts if not each.deleted and each.hub == question.hub]
        replies: dict[str, Post] = {}
        for each in others:
            if each.reply_to == question.message_id and each.sender != question.sender:
                replies.setdefault(each.sender, each)
        kind, answers = "reply", list(replies.values())
        if not answers:
            kind, answers = "next", _next(question, posts[place + 1 :], window_ms)
        for number, answer in enumerate(answers):
            key = (question.hub, question.message_id, answer.message_id)
            found.append((*key, kind, number == 0, plain_latency(question, answer)))
    return found


def _next(question: Post, later: Sequence[Post], window_ms: int) -> list[Post]:
    for each in later:
        if (each.hub, each.topic) != (question.hub, question.topic) or each.deleted or each.reply_to is not None:
            continue
        if each.sender != question.sender:
            latency = plain_latency(question, each)
            return [each] if latency is None or latency <= window_ms else []
    return []


def plain_latency(question: Post, answer: Post) -> int | None:
    if question.minute is None or answer.minute is None or answer.minute < question.minute:
        return None
    return round((answer.minute - question.minute) * MINUTE_MS)


def plain_percentile(values: Sequence[float], share: float) -> float | None:
    """Interpolated between the two nearest values."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
