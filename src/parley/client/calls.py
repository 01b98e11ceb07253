"""Every change that a client can ask of a hub, described once as a value: what to send and what comes back.

Both clients are made from these functions; see ``client``. A mutation always carries an idempotency key, its own if the
caller gave none, so repeating it after a lost answer has one effect.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from parley.client.call import Call, Caller, encoded, mutation, own_name, segment
from parley.wire import requests
from parley.wire.answers import (
    AttachmentResult,
    ChannelResult,
    FindingsResult,
    Health,
    MessageResult,
    MovePreview,
    MoveResult,
    PageLink,
    Plugins,
    Pong,
    QueuedAgain,
    Status,
    TokenRotated,
    TopicResult,
)


def health(_caller: Caller) -> Call[Health]:
    """How the hub is. Needs no token."""
    return Call("GET", "/health", Health)


def ping(_caller: Caller, echo: Any = msgspec.UNSET) -> Call[Pong]:
    """Asks the hub for an answer, with the token checked; ``echo`` comes back as it is."""
    return Call("POST", "/api/v1/_ping", Pong, encoded(requests.Ping(echo)))


def status(_caller: Caller) -> Call[Status]:
    """Sizes, rates and troubles of the hub."""
    return Call("GET", "/api/v1/status", Status)


def rotate_token(_caller: Caller) -> Call[TokenRotated]:
    """Gives the workspace a new token. The old one stays valid for a while; this client reads the new one by itself."""
    return Call("POST", "/api/v1/token/rotate", TokenRotated)


def page_link(_caller: Caller) -> Call[PageLink]:
    """A link that opens the hub's page and logs the browser in; ``url`` works once and for a few minutes."""
    return Call("POST", "/api/v1/ui/code", PageLink)


def create_channel(
    caller: Caller, name: str, description: str | None = None, *, idempotency_key: str | None = None
) -> Call[ChannelResult]:
    """Makes a channel. A name that is taken raises ``InvalidInput``."""
    body = requests.CreateChannel(name, description)
    return mutation(caller, "POST", "/api/v1/channels", ChannelResult, body, idempotency_key)


def create_topic(
    caller: Caller, channel_id: str, title: str, *, idempotency_key: str | None = None
) -> Call[TopicResult]:
    """Makes a topic in a channel."""
    body = requests.CreateTopic(channel_id, title)
    return mutation(caller, "POST", "/api/v1/topics", TopicResult, body, idempotency_key)


def rename_topic(caller: Caller, topic_id: str, title: str, *, idempotency_key: str | None = None) -> Call[TopicResult]:
    """Gives a topic another title; its id stays."""
    path = f"/api/v1/topics/{segment(topic_id)}"
    return mutation(caller, "PATCH", path, TopicResult, requests.RenameTopic(title), idempotency_key)


def send_message(
    caller: Caller,
    topic_id: str,
    content: str,
    sender: str | None = None,
    *,
    reply_to: str | None = None,
    client_message_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[MessageResult]:
    """Posts a message, by default in the name that the client was made with.

    ``client_message_id`` is an idempotency key of your own that travels in the body; give it when you keep the message
    in a store and may send it again after a crash.
    """
    body = requests.CreateMessage(topic_id, own_name(caller, sender, "sender"), content, reply_to, client_message_id)
    key = idempotency_key if client_message_id is not None else idempotency_key or caller.new_key()
    return Call("POST", "/api/v1/messages", MessageResult, encoded(body), key)


def edit_message(
    caller: Caller,
    message_id: str,
    content: str,
    *,
    expected_version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[MessageResult]:
    """Replaces a message's content. With ``expected_version``, raises ``VersionConflict`` if somebody was faster."""
    body = requests.EditMessage(content, expected_version)
    return mutation(caller, "PATCH", _message(message_id), MessageResult, body, idempotency_key)


def delete_message(
    caller: Caller,
    message_id: str,
    actor: str | None = None,
    *,
    expected_version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[MessageResult]:
    """Replaces a message by a tombstone. Deleting again changes nothing and answers with ``event_id`` None."""
    body = requests.DeleteMessage(own_name(caller, actor, "actor"), expected_version)
    return mutation(caller, "PATCH", _message(message_id), MessageResult, body, idempotency_key)


def retopic_message(
    caller: Caller,
    message_id: str,
    to_topic_id: str,
    mode: requests.MoveMode = "one",
    *,
    expected_version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[MoveResult]:
    """Moves a message to another topic of its channel: it alone, it and all ``later`` ones, or ``all`` of its topic."""
    body = requests.MoveMessage(to_topic_id, mode, expected_version)
    return mutation(caller, "PATCH", _message(message_id), MoveResult, body, idempotency_key)


def move_preview(
    _caller: Caller, message_id: str, to_topic_id: str, mode: requests.MoveMode = "one"
) -> Call[MovePreview]:
    """What ``retopic_message`` would take along if it were called now."""
    query = urlencode({"to_topic_id": to_topic_id, "mode": mode})
    return Call("GET", f"{_message(message_id)}/move_preview?{query}", MovePreview)


def list_plugins(_caller: Caller) -> Call[Plugins]:
    """How each plugin is, and what waits for it."""
    return Call("GET", "/api/v1/plugins", Plugins)


def re_enrich(_caller: Caller, since_event_id: int, plugin_name: str | None = None) -> Call[QueuedAgain]:
    """Queues the messages posted or edited after an event for a plugin again, or for all of them.

    Doing it twice queues what is not waiting already, so it needs no key.
    """
    body = requests.ReEnrich(since_event_id, plugin_name)
    return Call("POST", "/api/v1/plugins/re_enrich", QueuedAgain, encoded(body))


def add_attachment(
    caller: Caller,
    topic_id: str,
    kind: str,
    value: dict[str, Any],
    *,
    key: str | None = None,
    dedupe_key: str | None = None,
    source_message_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[AttachmentResult]:
    """Adds structured grounding to a topic. One that is there already comes back with ``event_id`` None."""
    body = requests.AddAttachment(kind, value, key, dedupe_key, source_message_id)
    path = f"/api/v1/topics/{segment(topic_id)}/attachments"
    return mutation(caller, "POST", path, AttachmentResult, body, idempotency_key)


def store_findings(
    caller: Caller,
    message_id: str,
    plugin_name: str,
    version: int,
    *,
    enrichments: Sequence[requests.FoundEnrichment] | None = None,
    attachments: Sequence[requests.FoundAttachment] | None = None,
    idempotency_key: str | None = None,
) -> Call[FindingsResult]:
    """Stores what a plugin found in a message at the version that it read.

    ``enrichments`` replace those that the plugin had found before, so an empty list takes them away; ``attachments``
    are added to the message's topic. A message that changed since raises ``VersionConflict``, a deleted one
    ``MessageDeleted``.
    """
    body = requests.StoreFindings(
        plugin_name,
        version,
        None if enrichments is None else list(enrichments),
        None if attachments is None else list(attachments),
    )
    return mutation(caller, "POST", f"{_message(message_id)}/findings", FindingsResult, body, idempotency_key)


def _message(message_id: str) -> str:
    return f"/api/v1/messages/{segment(message_id)}"
