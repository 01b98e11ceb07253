"""Small helpers that make most plugins a few lines."""

import re
from collections.abc import Iterator
from typing import Any

from parley.core.urls import url_spans
from parley.plugin.contract import Enrichment, Message
from parley.wire.entities import Span


def find(
    pattern: str | re.Pattern[str], message: Message | str, *, inside_urls: bool = False
) -> Iterator[re.Match[str]]:
    """Every match of the pattern in the content, in order. Matches that touch a URL are left out unless asked for."""
    text = message if isinstance(message, str) else message.content_raw
    links = iter([] if inside_urls else url_spans(text))
    link = next(links, None)
    for match in re.finditer(pattern, text):
        start, end = match.span()
        while link is not None and link[1] <= start:
            link = next(links, None)
        if end > start and (link is None or end <= link[0]):
            yield match


def mark(match: re.Match[str], kind: str, **data: Any) -> Enrichment:
    """An enrichment of what was matched."""
    return Enrichment(kind, Span(*match.span()), data)


def link(match: re.Match[str], url: str, *, title: str | None = None, description: str | None = None) -> Enrichment:
    """An enrichment that makes what was matched a link to an http or https address."""
    texts = {"title": title, "description": description}
    return mark(match, "link", url=url, **{name: text for name, text in texts.items() if text is not None})
