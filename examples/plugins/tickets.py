"""Marks ticket numbers such as PAR-42 and links them to the tracker."""

from typing import Any

from parley.plugin import Enrichment, Message, find, link


def enrich(message: Message, config: dict[str, Any]) -> list[Enrichment]:
    base = config.get("base", "https://tickets.example.com/")
    return [link(match, base + match[0], title=f"Ticket {match[1]}") for match in find(r"\bPAR-(\d+)\b", message)]
