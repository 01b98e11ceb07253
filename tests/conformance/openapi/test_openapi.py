"""Each server's ``/openapi.json`` matches what the server does: schemathesis calls a hub, a daemon and a broker with
what their documents allow and with what they forbid. No 500, no undocumented status or code, and every answer has the
documented content type and shape."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from itertools import takewhile
from typing import Any, NamedTuple

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.client.hubs import DEADLINE_SECONDS
from tests.conformance.openapi.servers import APIS, Operation, Running, Values

EXAMPLES = 10
WAIT_SECONDS_MAX = 1
"""How long a server may be asked to wait for something to happen."""
SCHEMAS = {name: schemathesis.openapi.from_dict(api.document) for name, api in APIS.items()}
Servers = Callable[[str], Running]


class Asked(NamedTuple):
    """An operation of a server's document."""

    server: str
    method: str
    path: str
    described: dict[str, Any]

    @property
    def operation(self) -> Operation:
        return self.method, self.path

    @property
    def schema(self) -> Any:
        return SCHEMAS[self.server][self.path][self.method]

    @property
    def is_stream(self) -> bool:
        return any("text/event-stream" in each.get("content", {}) for each in self.described["responses"].values())

    @property
    def has_body(self) -> bool:
        return "requestBody" in self.described

    def names(self, place: str) -> list[str]:
        return [each["name"] for each in self.described.get("parameters", []) if each["in"] == place]

    def case(self, **parts: Any) -> Case[Any]:
        return self.schema.Case(path_parameters=dict.fromkeys(self.names("path"), "x"), **parts)

    def __str__(self) -> str:
        return f"{self.server} {self.method} {self.path}"


ALL = [
    Asked(server, method.upper(), path, described)
    for server, api in APIS.items()
    for path, operations in api.document["paths"].items()
    for method, described in operations.items()
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Each server is started when it is first asked for, and busy with whatever earlier calls left behind."""
    with ExitStack() as running:
        yield cache(lambda name: running.enter_context(APIS[name].run(tmp_path_factory.mktemp(name))))


def no_fault(ctx: Any, response: schemathesis.Response, case: Case[Any]) -> None:
    """What cannot be done now is refused with another status, such as 502 while a broker is away."""
    assert response.status_code != 500


def code_conformance(ctx: Any, response: schemathesis.Response, case: Case[Any]) -> None:
    """The code of a refusal is one of those that the document has for its status."""
    if response.status_code >= 400:
        described = case.operation.definition.raw["responses"][str(response.status_code)]["description"]
        assert response.json()["code"] in described.split(", ")


CHECKS: list[Any] = [
    no_fault,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    code_conformance,
]


def _ask(asked: Asked, server: Running, case: Case[Any], headers: Mapping[str, str], **more: Any) -> int:
    """Makes the call and holds the answer to the document; its status."""
    try:
        if asked.is_stream:
            response = _beginning(case.as_transport_kwargs(server.url, dict(headers)))
        else:
            response = case.call(server.url, headers=dict(headers), timeout=DEADLINE_SECONDS, **more)
        case.validate_response(response, checks=CHECKS)
        return response.status_code
    finally:
        server.make_good(asked.operation)


def _beginning(request: dict[str, Any]) -> schemathesis.Response:
    """A stream up to its first blank line, as it never ends by itself, or the refusal of one."""
    with requests.request(**request, stream=True, timeout=DEADLINE_SECONDS) as answer:
        content = b"\n".join(takewhile(bool, answer.iter_lines())) if answer.ok else answer.content
        headers = {name: [value] for name, value in answer.headers.items()}
        return schemathesis.Response(answer.status_code, headers, content, answer.request, 0.0, verify=True)


def _ask_many(asked: Asked, server: Running, cases: st.SearchStrategy[Case[Any]]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=cases)
    def ask(case: Case[Any]) -> None:
        wait = case.query.get("wait_seconds")
        if isinstance(wait, int) and wait > WAIT_SECONDS_MAX:
            case.query["wait_seconds"] = WAIT_SECONDS_MAX
        _ask(asked, server, case, server.headers())

    ask()


@st.composite
def _allowed(draw: st.DrawFn, asked: Asked, server: Running) -> Case[Any]:
    """What the document allows; mostly about something that is there."""
    case = draw(asked.schema.as_strategy(GenerationMode.POSITIVE))
    if draw(st.sampled_from((True, True, False))):
        known: Values = {**server.known, **server.known_at.get(asked.operation, {})}
        _know(draw, case.path_parameters, asked.names("path"), known)
        _know(draw, case.query, asked.names("query"), known)
        if isinstance(case.body, dict):
            _know(draw, case.body, case.body, known)
    return case


def _know(draw: st.DrawFn, values: dict[str, Any], names: Any, known: Values) -> None:
    for name in [name for name in names if known.get(name)]:
        value = draw(st.sampled_from(known[name]))
        values[name] = [value] if isinstance(values.get(name), list) and not isinstance(value, list) else value


@pytest.mark.parametrize("asked", ALL, ids=str)
def test_what_the_document_allows_is_answered_as_documented(servers: Servers, asked: Asked) -> None:
    server = servers(asked.server)
    for body in server.bodies.get(asked.operation, ()):
        _ask(asked, server, asked.case(body=dict(body), media_type="application/json"), server.headers())
    _ask_many(asked, server, _allowed(asked, server))


def _can_be_asked_wrongly(asked: Asked) -> bool:
    """Whether the document forbids anything: a path that anybody may ask for may hold any text."""
    return (
        asked.has_body
        or any(asked.names(place) for place in ("query", "header"))
        or (bool(asked.described["security"]) and bool(asked.names("path")))
    )


@pytest.mark.parametrize("asked", [each for each in ALL if _can_be_asked_wrongly(each)], ids=str)
def test_what_the_document_forbids_is_refused_as_documented(servers: Servers, asked: Asked) -> None:
    _ask_many(asked, servers(asked.server), asked.schema.as_strategy(GenerationMode.NEGATIVE))


@pytest.mark.parametrize("asked", ALL, ids=str)
def test_what_is_refused_before_it_is_looked_at_is_refused_as_documented(servers: Servers, asked: Asked) -> None:
    server = servers(asked.server)
    headers = server.headers()
    without = {name: value for name, value in headers.items() if name != "Authorization"}
    for proof in ({}, {"Authorization": "Bearer wrong"}):
        status = _ask(asked, server, asked.case(), {**without, **proof})
        assert not asked.described["security"] or status in (401, 403)
    assert _ask(asked, server, asked.case(), {**headers, "Origin": "https://example.org"}) == 403
    _ask(asked, server, asked.case(), {**headers, "Host": "example.org"})
    if asked.has_body:
        as_json, as_text = ({**headers, "Content-Type": kind} for kind in ("application/json", "text/plain"))
        _ask(asked, server, asked.case(), as_text, data=b"{}")
        assert _ask(asked, server, asked.case(), as_json, data=b"{") == 400
        assert _ask(asked, server, asked.case(), as_json, data=b" " * (2 * 1024 * 1024)) == 413


@pytest.mark.parametrize("name", APIS)
def test_the_served_document_is_the_one_that_the_table_makes(servers: Servers, name: str) -> None:
    server = servers(name)
    answer = httpx.get(f"{server.url}/openapi.json", headers=server.headers(), trust_env=False)
    assert answer.json() == json.loads(json.dumps(APIS[name].document))


@pytest.mark.parametrize("name", APIS)
def test_the_document_is_openapi_3_1_and_names_each_operation_once(name: str) -> None:
    assert APIS[name].document["openapi"] == "3.1.0"
    names = [each.described["operationId"] for each in ALL if each.server == name]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("asked", ALL, ids=str)
def test_every_endpoint_documents_what_any_request_may_meet(asked: Asked) -> None:
    expected = {"400", "403", "500"}
    if asked.described["security"]:
        expected |= {"401", "429", "503"}
    if asked.method != "GET":
        expected |= {"413", "415", "429", "503"}
    assert expected <= set(asked.described["responses"])


@pytest.mark.parametrize("name", APIS)
def test_whatever_is_known_of_a_server_is_about_an_operation_of_it(servers: Servers, name: str) -> None:
    server = servers(name)
    there = {each.operation for each in ALL if each.server == name}
    assert {*server.known_at, *server.bodies, *server.made_good} <= there
