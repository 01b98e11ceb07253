"""Links in a message, found by a pure function, and the rules for metadata that holds a link.

The pattern and the trimming are those of Agentlip, so that both find the same links in the same text.
"""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from parley.core import limits
from parley.core.errors import InvalidInput

_URL = re.compile(r"https?://[^\s<>'\"]+", re.IGNORECASE)
_TRAILING = ".,;:!?)"
_FORBIDDEN_TEXT = re.compile(r"[<>\x00-\x1f\x7f]|javascript:", re.IGNORECASE)
LINK_KINDS = frozenset({"url", "link"})
"""Attachment kinds whose metadata must hold an http or https link."""


def extract_urls(text: str, *, allow: Iterable[str] = (), block: Iterable[str] = ()) -> list[str]:
    """The links in the text, each once, in order of appearance, at most ``URLS_PER_MESSAGE_MAX``."""
    allowed, blocked = tuple(allow), tuple(block)
    found: dict[str, None] = {}
    for match in _URL.finditer(text):
        url = match.group().rstrip(_TRAILING)
        host = _host(url)
        if host is None or len(url) > limits.URL_CHARS_MAX or _within(host, blocked):
            continue
        if allowed and not _within(host, allowed):
            continue
        found[url] = None
        if len(found) == limits.URLS_PER_MESSAGE_MAX:
            break
    return list(found)


def url_spans(text: str) -> list[tuple[int, int]]:
    """Where links stand in the text, also those that would not be extracted."""
    return [(match.start(), match.start() + len(match.group().rstrip(_TRAILING))) for match in _URL.finditer(text)]


def check_link(value: Mapping[str, object], *, field: str = "value_json") -> None:
    """Refuses link metadata that a page could not show safely. Raises ``InvalidInput``, which names the field."""
    url, place = value.get("url"), f"{field}.url"
    if not isinstance(url, str):
        raise InvalidInput(f"{place} must be a string", field=place)
    if len(url) > limits.URL_CHARS_MAX:
        raise InvalidInput(f"{place} is longer than {limits.URL_CHARS_MAX} characters", field=place)
    if _host(url) is None or _FORBIDDEN_TEXT.search(url):
        raise InvalidInput(f"{place} must be a plain http or https link", field=place)
    for name in ("title", "description"):
        text = value.get(name)
        if text is None:
            continue
        if not isinstance(text, str) or len(text) > limits.URL_TEXT_CHARS_MAX or _FORBIDDEN_TEXT.search(text):
            raise InvalidInput(
                f"{field}.{name} must be plain text of at most {limits.URL_TEXT_CHARS_MAX} characters",
                field=f"{field}.{name}",
            )


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.scheme.lower() in ("http", "https") else None
    except ValueError:
        return None


def _within(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith("." + domain) for domain in map(str.lower, domains))
