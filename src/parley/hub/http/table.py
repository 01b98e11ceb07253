"""The table of endpoints. Routing, validation, ``/openapi.json`` and the docs are made from it."""

from parley.core.errors import (
    CrossChannelMove,
    CursorExpired,
    IdempotencyKeyReused,
    MessageArchived,
    MessageDeleted,
    NotFound,
    VersionConflict,
)
from parley.core.limits import EVENTS_LIMIT_DEFAULT, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, SEARCH_LIMIT_DEFAULT
from parley.hub.http import reads, writes
from parley.hub.http.endpoint import Endpoint, Param
from parley.wire import answers, requests
from parley.wire.events import EventPage

_LIMIT = Param("limit", "integer", "rows in the answer", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
_CURSOR = Param("cursor", "string", "the `cursor` of an earlier answer: continues after it")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET", "/health", reads.health, "Whether the hub lives, and which one it is", {200: answers.Health}, public=True
    ),
    Endpoint(
        "GET",
        "/metrics",
        reads.metrics,
        "All metrics in Prometheus' text form",
        {200: bytes},
        content_type="text/plain",
    ),
    Endpoint("GET", "/openapi.json", reads.openapi, "This API as an OpenAPI document", {200: dict}),
    Endpoint("GET", "/api/v1/status", reads.status, "Sizes, rates and troubles of the hub", {200: answers.Status}),
    Endpoint(
        "POST",
        "/api/v1/_ping",
        writes.ping,
        "Whether the token is right",
        {200: answers.Pong},
        body=requests.Ping,
        body_optional=True,
    ),
    Endpoint(
        "POST",
        "/api/v1/token/rotate",
        writes.rotate_token,
        "Writes a new token to the token file; the old one stays valid for a while",
        {200: answers.TokenRotated},
    ),
    Endpoint("GET", "/api/v1/channels", reads.channels, "All channels by name", {200: answers.Channels}),
    Endpoint(
        "POST",
        "/api/v1/channels",
        writes.post_channel,
        "Creates a channel",
        {201: answers.ChannelResult, 200: answers.ChannelResult},
        (IdempotencyKeyReused,),
        body=requests.CreateChannel,
    ),
    Endpoint(
        "GET",
        "/api/v1/channels/{channel_id}/topics",
        reads.topics,
        "Topics of a channel, most recently changed first",
        {200: answers.Topics},
        (NotFound,),
        (_LIMIT, Param("offset", "integer", "topics to skip", 0, 0, reads.OFFSET_MAX), _CURSOR),
    ),
    Endpoint(
        "POST",
        "/api/v1/topics",
        writes.post_topic,
        "Creates a topic",
        {201: answers.TopicResult, 200: answers.TopicResult},
        (NotFound, IdempotencyKeyReused),
        body=requests.CreateTopic,
    ),
    Endpoint("GET", "/api/v1/topics/{topic_id}", reads.topic, "One topic", {200: answers.OneTopic}, (NotFound,)),
    Endpoint(
        "PATCH",
        "/api/v1/topics/{topic_id}",
        writes.patch_topic,
        "Renames a topic",
        {200: answers.TopicResult},
        (NotFound, IdempotencyKeyReused),
        body=requests.RenameTopic,
    ),
    Endpoint(
        "GET",
        "/api/v1/messages",
        reads.messages,
        "Messages of a topic or a channel, newest first",
        {200: answers.Messages},
        (NotFound,),
        (
            Param("topic_id", "string", "the topic; wins over the channel"),
            Param("channel_id", "string", "the channel; one of the two is needed"),
            Param("before_id", "string", "only messages before this one"),
            Param("after_id", "string", "only messages right after this one"),
            _LIMIT,
            _CURSOR,
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/messages",
        writes.post_message,
        "Posts a message",
        {201: answers.MessageResult, 200: answers.MessageResult},
        (NotFound, IdempotencyKeyReused, MessageArchived),
        body=requests.CreateMessage,
    ),
    Endpoint(
        "GET", "/api/v1/messages/{message_id}", reads.message, "One message", {200: answers.OneMessage}, (NotFound,)
    ),
    Endpoint(
        "PATCH",
        "/api/v1/messages/{message_id}",
        writes.patch_message,
        "Edits, deletes or moves a message",
        {200: (answers.MessageResult, answers.MoveResult)},
        (NotFound, VersionConflict, MessageDeleted, CrossChannelMove, IdempotencyKeyReused, MessageArchived),
        body=requests.PatchMessage,
    ),
    Endpoint(
        "GET",
        "/api/v1/topics/{topic_id}/attachments",
        reads.attachments,
        "A topic's attachments, newest first",
        {200: answers.Attachments},
        (NotFound,),
        (Param("kind", "string", "only this kind"),),
    ),
    Endpoint(
        "POST",
        "/api/v1/topics/{topic_id}/attachments",
        writes.post_attachment,
        "Adds an attachment, unless it is there already",
        {201: answers.AttachmentResult, 200: answers.AttachmentResult},
        (NotFound, IdempotencyKeyReused),
        body=requests.AddAttachment,
    ),
    Endpoint(
        "GET",
        "/api/v1/search",
        reads.search,
        "Messages that match a query",
        {200: answers.SearchHits},
        (NotFound,),
        (
            Param("query", "string", "words, or the syntax of FTS5", required=True),
            Param("channel", "string", "only in this channel, by id or name"),
            Param("topic_id", "string", "only in this topic"),
            Param("limit", "integer", "rows in the answer", SEARCH_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX),
            _CURSOR,
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/events",
        reads.events,
        "The event log after a cursor, or its end",
        {200: EventPage},
        (CursorExpired,),
        (
            Param(
                "after",
                "integer",
                "the last event the reader has; the oldest cursor kept if omitted",
                None,
                0,
                reads.EVENT_ID_MAX,
            ),
            Param("tail", "integer", "the newest events instead; excludes `after`"),
            Param("limit", "integer", "events in the answer", EVENTS_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX),
            Param("channel_id", "string", "only events of these channels or topics", repeatable=True),
            Param("topic_id", "string", "only events of these channels or topics", repeatable=True),
        ),
    ),
)
