"""Every route of the local API, in the order of the docs."""

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from parley.daemon.http import about, meshes, messages, stream
from parley.daemon.http.bodies import (
    Drop,
    Join,
    MakeInvite,
    MeshCall,
    OfMesh,
    Profile,
    Prune,
    Requeue,
    Seen,
    SendBody,
    TopicName,
    TopicPost,
)
from parley.daemon.sessions import Register
from parley.serve.endpoint import Answer, Call, Endpoint
from parley.serve.openapi import About, openapi_document

if TYPE_CHECKING:
    from parley.daemon.daemon import Daemon
    from parley.serve.metrics import Metrics

ABOUT: Final = About("Parley daemon", "The local API of one user's daemon")


async def get_openapi(daemon: "Daemon", call: Call) -> Answer:
    return Answer(200, _document())


ENDPOINTS: "Final[tuple[Endpoint[Daemon], ...]]" = (
    Endpoint("GET", "/openapi.json", get_openapi, "this API as an OpenAPI document", {200: dict}),
    Endpoint("GET", "/v1/version", about.get_version, "versions, and what was agreed with each broker", {200: dict}),
    Endpoint("GET", "/v1/health", about.get_health, "how the daemon is", {200: dict}),
    Endpoint("GET", "/v1/compat", about.get_compat, "what this daemon works with", {200: dict}),
    Endpoint("POST", "/v1/heartbeat", about.post_heartbeat, "is anybody there?", {200: dict}),
    Endpoint("POST", "/v1/send", messages.post_send, "send a message", {200: dict}, body=SendBody),
    Endpoint("POST", "/v1/topic/post", messages.post_topic, "send a message to a topic", {200: dict}, body=TopicPost),
    Endpoint(
        "POST", "/v1/topic/subscribe", meshes.post_subscribe, "get what is sent to a topic", {200: dict}, body=TopicName
    ),
    Endpoint(
        "POST", "/v1/topic/unsubscribe", meshes.post_unsubscribe, "get no more of a topic", {200: dict}, body=TopicName
    ),
    Endpoint("GET", "/v1/topic/list", meshes.get_topics, "the topics of a mesh", {200: dict}),
    Endpoint("GET", "/v1/inbox", messages.get_inbox, "what arrived, newest first", {200: dict}),
    Endpoint("GET", "/v1/inbox/search", messages.search_inbox, "what arrived and holds these words", {200: dict}),
    Endpoint("POST", "/v1/inbox/seen", messages.post_seen, "mark messages as seen", {200: dict}, body=Seen),
    Endpoint(
        "DELETE",
        "/v1/inbox",
        messages.delete_inbox,
        "throw away what arrived in a mesh, before a time, or all",
        {200: dict},
    ),
    Endpoint("DELETE", "/v1/inbox/{id}", messages.delete_message, "throw one message away", {200: dict}),
    Endpoint("GET", "/v1/outbox", messages.get_outbox, "what was to be sent, newest first", {200: dict}),
    Endpoint(
        "GET",
        "/v1/outbox/{id}",
        messages.get_row,
        "one row, with all that it replaced and was replaced by",
        {200: dict},
    ),
    Endpoint(
        "POST", "/v1/outbox/requeue", messages.post_requeue, "send a row's message anew", {200: dict}, body=Requeue
    ),
    Endpoint("POST", "/v1/outbox/drop", messages.post_drop, "give a row up", {200: dict}, body=Drop),
    Endpoint("POST", "/v1/outbox/prune", messages.post_prune, "forget what old messages said", {200: dict}, body=Prune),
    Endpoint("GET", "/v1/peers", meshes.get_peers, "who is in the meshes, and what they are doing", {200: dict}),
    Endpoint("POST", "/v1/profile", meshes.post_profile, "say what the member is doing", {200: dict}, body=Profile),
    Endpoint("GET", "/v1/events", stream.get_events, "the daemon's log, as server-sent events", {200: dict}),
    Endpoint("GET", "/v1/sessions", meshes.get_sessions, "the local sessions", {200: dict}),
    Endpoint("GET", "/v1/sessions/me", meshes.get_own_session, "the session of the caller's token", {200: dict}),
    Endpoint(
        "POST", "/v1/sessions/register", meshes.post_session, "begin or renew a session", {200: dict}, body=Register
    ),
    Endpoint("DELETE", "/v1/sessions/{token}", meshes.delete_session, "end a session", {200: dict}),
    Endpoint("GET", "/v1/meshes", meshes.get_meshes, "the meshes that the daemon serves", {200: dict}),
    Endpoint("POST", "/v1/mesh/join", meshes.post_join, "become a member by an invite", {200: dict}, body=Join),
    Endpoint("POST", "/v1/mesh/invite", meshes.post_invite, "make an invite", {200: dict}, body=MakeInvite),
    Endpoint("POST", "/v1/mesh/call", meshes.post_call, "call a method of the broker", {200: dict}, body=MeshCall),
    Endpoint(
        "POST",
        "/v1/mesh/forget",
        meshes.post_forget,
        "serve a mesh no longer, without telling its broker",
        {200: dict},
        body=OfMesh,
    ),
    Endpoint(
        "POST", "/v1/mesh/rotate-keypair", meshes.post_rotate, "replace the member's key", {200: dict}, body=OfMesh
    ),
    Endpoint("GET", "/v1/mesh/safety", meshes.get_safety, "the number that two members compare aloud", {200: dict}),
    Endpoint("POST", "/v1/reload", meshes.post_reload, "take settings, hooks and memberships again", {200: dict}),
)
METRICS_PATH: Final = "/v1/metrics"


@cache
def _document() -> bytes:
    return msgspec.json.encode(openapi_document(ENDPOINTS, ABOUT))


def metrics_endpoint(metrics: "Metrics") -> "Endpoint[Daemon]":
    """The route over these metrics."""
    handler = about.metrics_route(metrics)
    summary = "metrics in Prometheus' text form"
    return Endpoint("GET", METRICS_PATH, handler, summary, {200: bytes}, content_type="text/plain")
