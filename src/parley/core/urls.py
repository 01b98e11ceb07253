"""Links in a message, found by a pure function, and the rules for metadata that holds a link."""

import re
from collections.abc import Iterable, Mapping

from parley.core import limits
from parley.core.addresses import address_spans, host_of
from parley.core.errors import InvalidInput
from parley.core.links import clickable_addresses

_FORBIDDEN_TEXT = re.compile(r"[<>\x00-\x1f\x7f]|javascript:", re.IGNORECASE)
LINK_KINDS = frozenset({"url", "link"})
"""Attachment kinds whose metadata must hold an http or https link, however they are written."""


def extract_urls(text: str, *, allow: Iterable[str] = (), block: Iterable[str] = ()) -> list[str]:
    """The links that a reader of the text can click, each once, in order, at most ``URLS_PER_MESSAGE_MAX``."""
    allowed, blocked = tuple(allow), tuple(block)
    found: dict[str, None] = {}
    for url in clickable_addresses(text):
        host = host_of(url)
        if host is None or _within(host, blocked) or (allowed and not _within(host, allowed)):
            continue
        found[url] = None
        if len(found) == limits.URLS_PER_MESSAGE_MAX:
            break
    return list(found)


def url_spans(text: str) -> list[tuple[int, int]]:
    """Where addresses stand in the text, also those that would not be extracted."""
    return list(address_spans(text))


def check_link(value: Mapping[str, object], *, field: str = "value_json") -> None:
    """Refuses link metadata that a page could not show safely. Raises ``InvalidInput``, which names the field."""
    url, place = value.get("url"), f"{field}.url"
    if not isinstance(url, str):
        raise InvalidInput(f"{place} must be a string", field=place)
    if len(url) > limits.URL_CHARS_MAX:
        raise InvalidInput(f"{place} is longer than {limits.URL_CHARS_MAX} characters", field=place)
    if host_of(url) is None or _FORBIDDEN_TEXT.search(url):
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


def _within(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith("." + domain) for domain in map(str.lower, domains))
