"""``/openapi.json``, made from the table of endpoints, the wire structs and the error registry."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from parley import __version__
from parley.core.errors import (
    DatabaseCorrupt,
    FilesLost,
    HostForbidden,
    InternalError,
    InvalidAuth,
    InvalidInput,
    MissingAuth,
    OriginForbidden,
    ParleyError,
    PayloadTooLarge,
    RateLimited,
    ServiceUnavailable,
    ShuttingDown,
    UnsupportedMediaType,
)
from parley.core.limits import IDEMPOTENCY_KEY_CHARS_MAX
from parley.serve.endpoint import Endpoint, Param
from parley.wire.answers import ErrorBody

_ALWAYS: tuple[type[ParleyError], ...] = (InvalidInput, HostForbidden, OriginForbidden, InternalError)
_PRIVATE: tuple[type[ParleyError], ...] = (MissingAuth, InvalidAuth)
_AT_WORK: tuple[type[ParleyError], ...] = (RateLimited, ServiceUnavailable, ShuttingDown, DatabaseCorrupt, FilesLost)
"""Refusals of what is counted and waited for: everything but a read that is open to all."""
_WITH_BODY: tuple[type[ParleyError], ...] = (PayloadTooLarge, UnsupportedMediaType)
_REF = "#/components/schemas/{name}"


class About(NamedTuple):
    """What a document says of its server, and how callers prove themselves to it."""

    title: str
    summary: str
    session_cookie: str | None = None
    """The cookie that is as good as the token, where an endpoint does not ask for the token alone."""
    errors: tuple[type[ParleyError], ...] = ()
    """Refusals that any of its endpoints may give, beyond those of every server."""


def openapi_document(endpoints: Sequence[Endpoint[Any]], about: About) -> dict[str, Any]:
    """The document as a plain value."""
    kinds = [
        kind
        for endpoint in endpoints
        for answer in (*endpoint.answers.values(), endpoint.body)
        for kind in _alternatives(answer)
    ]
    structs = [kind for kind in dict.fromkeys(kinds) if kind not in (None, bytes, dict)]
    shapes, components = msgspec.json.schema_components([*structs, ErrorBody], ref_template=_REF)
    schema = dict(zip([*structs, ErrorBody], shapes, strict=True))
    schemes: dict[str, dict[str, str]] = {"token": {"type": "http", "scheme": "bearer"}}
    if about.session_cookie is not None:
        schemes["session"] = {"type": "apiKey", "in": "cookie", "name": about.session_cookie}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, about, schema) | {"security": _security(endpoint, about)}
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": about.title, "version": __version__, "summary": about.summary},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": schemes,
        },
    }


def _operation(endpoint: Endpoint[Any], about: About, schema: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "responses": _responses(endpoint, about, schema),
    }
    parameters = [_path_parameter(name) for name in re.findall(r"\{(\w+)\}", endpoint.path)]
    parameters += [_query_parameter(param) for param in endpoint.params]
    if endpoint.takes_key:
        parameters.append(_key_header())
    if endpoint.body is not None and endpoint.method != "GET":
        operation["requestBody"] = {
            "required": not endpoint.body_optional,
            "content": {"application/json": {"schema": schema[endpoint.body]}},
        }
    if parameters:
        operation["parameters"] = parameters
    return operation


def _responses(endpoint: Endpoint[Any], about: About, schema: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in sorted(endpoint.answers.items()):
        if kind is None:
            responses[str(status)] = {"description": endpoint.summary}
            continue
        shapes = [
            {"type": "string"} if each is bytes else {"type": "object"} if each is dict else schema[each]
            for each in _alternatives(kind)
        ]
        shape = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
        responses[str(status)] = {
            "description": endpoint.summary,
            "content": {endpoint.content_type: {"schema": shape}},
        }
    errors = [*_ALWAYS, *about.errors, *endpoint.errors]
    if not endpoint.public:
        errors += _PRIVATE
    if not endpoint.public or endpoint.method != "GET":
        errors += _AT_WORK
    if endpoint.method != "GET":
        errors += _WITH_BODY
    for status in sorted({error.status for error in errors}):
        codes = sorted({error.code for error in errors if error.status == status})
        responses[str(status)] = {
            "description": ", ".join(codes),
            "content": {"application/json": {"schema": schema[ErrorBody]}},
        }
    return responses


def _security(endpoint: Endpoint[Any], about: About) -> list[dict[str, list[str]]]:
    """The ways in, of which one is enough."""
    if endpoint.public:
        return []
    with_session = about.session_cookie is not None and not endpoint.token_only
    return [{"token": []}, {"session": []}] if with_session else [{"token": []}]


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", kind) if isinstance(kind, tuple) else (kind,)


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query_parameter(param: Param) -> dict[str, Any]:
    bounds = {"default": param.default, "minimum": param.low, "maximum": param.high}
    shape: dict[str, Any] = {"type": param.kind, **{key: bound for key, bound in bounds.items() if bound is not None}}
    if param.choices:
        shape |= {"enum": list(param.choices), "default": param.choices[0]}
    if param.repeatable:
        shape = {"type": "array", "items": shape}
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.meaning,
        "schema": shape,
    }


def _key_header() -> dict[str, Any]:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "A retry with the same key has one effect",
        "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_CHARS_MAX, "pattern": "^[!-~]+$"},
    }
