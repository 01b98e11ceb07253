"""What a broker answers over HTTP: how it is, and the two things that are asked before there is a member to connect."""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from parley.broker.rules.founding import FoundMesh, Join
from parley.broker.rules.mesh_limits import ChangeLimits, all_limits
from parley.broker.server import Broker
from parley.core.broker_errors import CreationRefused, OperatorOnly
from parley.core.errors import (
    InternalError,
    MethodNotAllowed,
    NotFound,
    OriginForbidden,
    ParleyError,
    ServiceUnavailable,
    ShuttingDown,
)
from parley.serve import SECURITY_HEADERS, DiskWatch
from parley.serve.bodies import decode_body, read_body, refusal_headers
from parley.serve.disk import FULL_BYTES
from parley.wire.answers import error_body
from parley.wire.mesh_http import JOIN_PATH, MESHES_PATH, CreateMesh, JoinMesh, MeshCreated, SetLimits

T = TypeVar("T")
BODY_BYTES_MAX: Final = 16 * 1024
SOCKET_PATH: Final = "/ws"


class RouteInfo(NamedTuple):
    """A route, for the documents."""

    method: str
    path: str
    meaning: str


ROUTES: Final = (
    RouteInfo("GET", SOCKET_PATH, "the WebSocket of a daemon"),
    RouteInfo(
        "GET",
        "/v1/health",
        "whether the process answers: version, broker id, and what is degraded; never asks the database",
    ),
    RouteInfo(
        "GET", "/v1/ready", "200 when the database answers, its disk has room and nobody stops the broker; else 503"
    ),
    RouteInfo("GET", "/metrics", "metrics in Prometheus' text form"),
    RouteInfo("POST", MESHES_PATH, "make a mesh; needs the creation token unless everybody may create"),
    RouteInfo("GET", MESHES_PATH, "all meshes with their limits; needs the creation token, whoever may create"),
    RouteInfo("PATCH", MESHES_PATH, "change what a mesh may hold; needs the creation token, whoever may create"),
    RouteInfo("POST", JOIN_PATH, "become a member by an invite"),
)


@dataclass(frozen=True)
class HttpSettings:
    """What the routes need to know beyond the broker."""

    creation_token: str
    open_creation: bool
    public_url: str
    version: str
    disk: DiskWatch
    keeps_file: bool = True
    """Whether what it accepts goes onto that disk; a database has its own."""


class Api:
    """The routes over one broker."""

    def __init__(self, broker: Broker, settings: HttpSettings) -> None:
        self._broker = broker
        self._settings = settings

    def app(self) -> ASGIApp:
        """The application that a server runs: the WebSocket, and the routes."""
        web = Starlette(
            routes=[
                Route("/v1/health", self._answering(self._health), methods=["GET"]),
                Route("/v1/ready", self._answering(self._ready), methods=["GET"]),
                Route("/metrics", self._answering(self._metrics), methods=["GET"]),
                Route(MESHES_PATH, self._answering(self._create), methods=["POST"]),
                Route(MESHES_PATH, self._answering(self._meshes), methods=["GET"]),
                Route(MESHES_PATH, self._answering(self._change_limits), methods=["PATCH"]),
                Route(JOIN_PATH, self._answering(self._join), methods=["POST"]),
            ],
            exception_handlers={HTTPException: _on_http_error},
        )

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "websocket" and scope["path"] == SOCKET_PATH:
                await self._broker.serve(scope, receive, send)
            else:
                await web(scope, receive, send)

        return app

    async def _health(self, _: Request) -> Response:
        setting = self._broker.setting
        problems = self._settings.disk.seen.problems
        status = "degraded" if problems else "ok"
        body = {"status": status, "version": self._settings.version, "broker_id": setting.broker_id}
        return _json({**body, "instance_id": setting.broker_instance, "problems": problems})

    async def _ready(self, _: Request) -> Response:
        if self._broker.stopping:
            raise ShuttingDown("The broker is shutting down")
        look = self._settings.disk.now()
        if self._settings.keeps_file and look.disk.free_bytes < FULL_BYTES:
            raise ServiceUnavailable("The broker's disk is full", reason="disk_full", free_bytes=look.disk.free_bytes)
        await self._broker.gate.run(lambda tx: tx.one("SELECT value FROM meta WHERE key = 'epoch'"))
        return _json({"status": "ready", **({"problems": look.problems} if look.problems else {})})

    async def _metrics(self, _: Request) -> Response:
        metrics = self._broker.metrics
        return Response(metrics.render(), media_type=metrics.content_type)

    async def _create(self, request: Request) -> Response:
        if not self._settings.open_creation and not self._has_token(request):
            raise CreationRefused("Making a mesh needs the broker's creation token")
        asked = await _body(request, CreateMesh)
        rule = FoundMesh(
            asked.slug, asked.name, self._settings.public_url, self._broker.policy, secrets.token_bytes(32)
        )
        mesh, invite = await self._broker.gate.run(rule)
        return _json(MeshCreated(mesh.mesh_id, mesh.slug, invite), 201)

    async def _meshes(self, request: Request) -> Response:
        self._must_be_operator(request)
        return _json({"meshes": await self._broker.gate.run(all_limits)})

    async def _change_limits(self, request: Request) -> Response:
        self._must_be_operator(request)
        return _json(await self._broker.gate.run(ChangeLimits(await _body(request, SetLimits))))

    def _must_be_operator(self, request: Request) -> None:
        if not self._has_token(request):
            raise OperatorOnly("What meshes may hold is the business of the broker's operator")

    async def _join(self, request: Request) -> Response:
        done = await self._broker.gate.run(Join(await _body(request, JoinMesh)))
        for notice in done.notices:
            self._broker.tell(done.mesh_id, notice)
        return _json(done.result["joined"], 201 if done.result["created"] else 200)

    def _has_token(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            token.encode(), self._settings.creation_token.encode()
        )

    def _answering(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The handler, with every failure as an answer of the one shape."""

        async def answering(request: Request) -> Response:
            try:
                if "origin" in request.headers:
                    raise OriginForbidden("No page has business with a broker")
                return await handler(request)
            except ParleyError as error:
                return _refusal(error)

        return answering


async def _body(request: Request, kind: type[T]) -> T:
    declared = request.headers.get("content-length", "").encode()
    data = await read_body(request.receive, declared, BODY_BYTES_MAX)
    return decode_body(msgspec.json.Decoder(kind).decode, data)


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    safe = {name.decode(): value.decode() for name, value in SECURITY_HEADERS}
    content = msgspec.json.encode(body)
    return Response(content, status, {**safe, **(headers or {})}, "application/json")


def _refusal(error: ParleyError) -> Response:
    headers = {name.decode(): value.decode() for name, value in refusal_headers(error)}
    return _json(error_body(error), error.status, headers)


async def _on_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        allowed = [route.method for route in ROUTES if route.path == request.url.path]
        return _refusal(MethodNotAllowed(request.method, allowed))
    return _refusal(NotFound(f"There is no {request.url.path}") if status == 404 else InternalError())
