"""Makes each line that starts with "Decision:" an attachment of the topic, where nobody has to search for it."""

from typing import Any

from parley.plugin import Attachment, Message, find


def extract(message: Message, config: dict[str, Any]) -> list[Attachment]:
    found = find(r"(?m)^Decision: (.{1,500})$", message, inside_urls=True)
    return [Attachment("decision", {"text": match[1], "by": message.sender}, dedupe_key=match[1]) for match in found]
