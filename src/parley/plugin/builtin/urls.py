"""``urls``: each link in a message becomes an attachment of its topic, as the hub itself does it with ``[urls]``.

For who wants it apart from the message's own transaction, or twice with different lists.
"""

from collections.abc import Mapping
from typing import Any

from parley.core.errors import InvalidInput
from parley.core.urls import check_link, extract_urls
from parley.plugin.contract import Attachment, Message


def extract(message: Message, config: Mapping[str, Any]) -> list[Attachment]:
    """The links that ``allow`` and ``block`` let through, each once."""
    urls = extract_urls(message.content_raw, allow=config.get("allow", ()), block=config.get("block", ()))
    return [Attachment("url", {"url": url}, dedupe_key=url) for url in urls if _can_be_shown(url)]


def _can_be_shown(url: str) -> bool:
    """Whether the hub would take it as an attachment: one strange link must not cost the message its others."""
    try:
        check_link({"url": url})
    except InvalidInput:
        return False
    return True
