"""Handlers that write: validate, run a rule through the writer, say what became of it."""

from typing import TYPE_CHECKING, Any, cast

from parley.core.errors import InvalidInput
from parley.core.fingerprint import message_fingerprint, write_fingerprint
from parley.hub.rules.attachments import add_attachment, check_attachment
from parley.hub.rules.channels import create_channel, create_topic, rename_topic
from parley.hub.rules.findings import store_findings
from parley.hub.rules.idempotency import Once
from parley.hub.rules.messages import check_content, create_message, delete_message, edit_message
from parley.serve.endpoint import Answer, Call
from parley.wire.answers import Pong, QueuedAgain, TokenRotated
from parley.wire.requests import (
    AddAttachment,
    CreateChannel,
    CreateMessage,
    CreateTopic,
    DeleteMessage,
    EditMessage,
    MoveMessage,
    Ping,
    ReEnrich,
    RenameTopic,
    StoreFindings,
)
from parley.workspace.log import encode_json

if TYPE_CHECKING:
    from parley.hub.hub import Hub


async def ping(hub: "Hub", call: Call) -> Answer:
    body = cast("Ping | None", call.body)
    return Answer(200, Pong(True, hub.instance_id) if body is None else Pong(True, hub.instance_id, body.echo))


async def rotate_token(hub: "Hub", call: Call) -> Answer:
    hub.rotate_token()
    return Answer(200, TokenRotated(True, hub.settings.hub.token_grace_seconds))


async def re_enrich(hub: "Hub", call: Call) -> Answer:
    request = cast(ReEnrich, call.body)
    return Answer(200, QueuedAgain(await hub.derived.queue_again(request.since_event_id, request.plugin_name)))


async def post_channel(hub: "Hub", call: Call) -> Answer:
    request = cast(CreateChannel, call.body)
    once = once_of(call, "channel.create", "", {"name": request.name, "description": request.description})
    result = await hub.store.write(lambda tx: create_channel(tx, request, once))
    return Answer(200 if result.duplicate else 201, result)


async def post_topic(hub: "Hub", call: Call) -> Answer:
    request = cast(CreateTopic, call.body)
    once = once_of(call, "topic.create", request.channel_id, {"title": request.title})
    result = await hub.store.write(lambda tx: create_topic(tx, request, once))
    return Answer(200 if result.duplicate else 201, result)


async def patch_topic(hub: "Hub", call: Call) -> Answer:
    request, topic_id = cast(RenameTopic, call.body), call.path["topic_id"]
    once = once_of(call, "topic.rename", topic_id, {"title": request.title})
    return Answer(200, await hub.store.write(lambda tx: rename_topic(tx, topic_id, request, once)))


async def post_message(hub: "Hub", call: Call) -> Answer:
    request = cast(CreateMessage, call.body)
    check_content(request.content_raw, hub.settings.limits.message_bytes_max)
    key = request.client_message_id
    if key is not None:
        if call.key is not None and call.key != key:
            raise InvalidInput("Idempotency-Key and client_message_id differ", field="client_message_id")
        call.key = key
    once = None
    if call.key is not None:
        said = message_fingerprint(request.topic_id, request.sender, request.content_raw, request.reply_to)
        once = Once(call.key, said)
    urls = hub.settings.urls
    result = await hub.store.write(lambda tx: create_message(tx, request, urls, once, hub.derived.queue))
    return Answer(200 if result.duplicate else 201, result)


async def patch_message(hub: "Hub", call: Call) -> Answer:
    request, message_id = call.body, call.path["message_id"]
    if isinstance(request, EditMessage):
        return await _edit(hub, call, message_id, request)
    if isinstance(request, DeleteMessage):
        fields = {"sender": request.actor, "expected_version": request.expected_version}
        once = once_of(call, "message.delete", message_id, fields)
        return Answer(200, await hub.store.write(lambda tx: delete_message(tx, message_id, request, once)))
    move = cast(MoveMessage, request)
    fields = {"to_topic_id": move.to_topic_id, "mode": move.mode, "expected_version": move.expected_version}
    once = once_of(call, "message.move", message_id, fields)
    return Answer(200, await hub.moves.run(message_id, move, once))


async def _edit(hub: "Hub", call: Call, message_id: str, request: EditMessage) -> Answer:
    check_content(request.content_raw, hub.settings.limits.message_bytes_max)
    fields = {"expected_version": request.expected_version}
    once = once_of(call, "message.edit", message_id, fields, request.content_raw)
    urls, queue = hub.settings.urls, hub.derived.queue
    return Answer(200, await hub.store.write(lambda tx: edit_message(tx, message_id, request, urls, once, queue)))


async def post_attachment(hub: "Hub", call: Call) -> Answer:
    request, topic_id = cast(AddAttachment, call.body), call.path["topic_id"]
    value_text = check_attachment(request, hub.settings.limits.attachment_bytes_max)
    fields = {
        "kind": request.kind,
        "key": request.key,
        "dedupe_key": request.dedupe_key,
        "source_message_id": request.source_message_id,
    }
    once = once_of(call, "attachment.add", topic_id, fields, value_text)
    result = await hub.store.write(lambda tx: add_attachment(tx, topic_id, request, value_text, once))
    return Answer(200 if result.event_id is None or result.duplicate else 201, result)


async def post_findings(hub: "Hub", call: Call) -> Answer:
    request, message_id = cast(StoreFindings, call.body), call.path["message_id"]
    if request.enrichments is None and request.attachments is None:
        raise InvalidInput("Give enrichments or attachments; an empty list says that there are none")
    fields = {"plugin_name": request.plugin_name, "version": request.version}
    once = None
    if call.key is not None:
        said = encode_json([request.enrichments, request.attachments]).decode()
        once = once_of(call, "findings.store", message_id, fields, said)
    bytes_max = hub.settings.limits.attachment_bytes_max
    return Answer(200, await hub.store.write(lambda tx: store_findings(tx, message_id, request, bytes_max, once)))


def once_of(call: Call, operation: str, target: str, fields: dict[str, Any], content: str = "") -> Once | None:
    """The request's key with its fingerprint."""
    return None if call.key is None else Once(call.key, write_fingerprint(operation, target, fields, content))
