"""A bypass is known to those whom it concerns: it is written where they read, addressed to who holds the lease."""

from typing import Final

from parley.client import Client
from parley.core.errors import InvalidInput
from parley.guard.check import Finding, shown
from parley.guard.hooks import HookName

CHANNEL: Final = "guard"
TITLE: Final = "Changes to leased paths"
_PATHS_MAX: Final = 20
_VERBS: Final[dict[HookName, str]] = {"pre-commit": "Committed", "pre-push": "Pushed"}


def record_bypass(finding: Finding, hook: HookName) -> str:
    """Posts what was let through; returns the id of the message. Raises if the hub cannot be reached."""
    with Client(finding.workspace.root, sender=finding.agent) as client:
        topic_id = _topic(client)
        return client.send_message(topic_id, _words(finding, hook)).message.id


def _words(finding: Finding, hook: HookName) -> str:
    lines = [f"{_VERBS[hook]} with the guard switched off, although others have leased these paths:"]
    lines += [
        f"- `{shown(hit.wanted)}`, leased by @{hit.holder} as `{hit.pattern}` until {hit.expires_at}"
        for hit in finding.hits[:_PATHS_MAX]
    ]
    if len(finding.hits) > _PATHS_MAX:
        lines.append(f"- and {len(finding.hits) - _PATHS_MAX} more")
    return "\n".join(lines)


def _topic(client: Client) -> str:
    channels = {channel.name: channel.id for channel in client.list_channels().channels}
    if CHANNEL not in channels:
        try:
            channels[CHANNEL] = client.create_channel(CHANNEL).channel.id
        except InvalidInput:  # somebody else was first
            channels = {channel.name: channel.id for channel in client.list_channels().channels}
    topics = {topic.title: topic.id for topic in client.list_topics(channels[CHANNEL]).topics}
    return topics.get(TITLE) or client.create_topic(channels[CHANNEL], TITLE).topic.id
