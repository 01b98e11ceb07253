"""``/openapi.json`` matches what the hub does: schemathesis calls a real hub with what the document allows and with
what it forbids. No 500, no undocumented status, and every answer has the documented shape."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from parley.hub.http.table import ABOUT, ENDPOINTS
from parley.serve.openapi import openapi_document
from tests.client.hubs import DEADLINE_SECONDS, HubProcess
from tests.hub.hubs import OpenHub

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
DOCUMENT = openapi_document(ENDPOINTS, ABOUT)
OPERATIONS = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if path != "/api/v1/token/rotate"  # it would lock out the calls that follow
]
EXAMPLES = 10


@pytest.fixture(scope="module")
def hub_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """One hub for all operations, busy with whatever the others left behind."""
    hub = HubProcess(tmp_path_factory.mktemp("openapi")).start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def real_ids(hub_process: HubProcess) -> dict[str, str]:
    """What the ids in a path may name."""
    server = hub_process.server
    headers = {"Authorization": f"Bearer {server.auth_token}"}
    with httpx.Client(base_url=server.base_url, headers=headers, timeout=DEADLINE_SECONDS) as client:
        channel = client.post("/api/v1/channels", json={"name": "general"}).json()["channel"]["id"]
        topic = client.post("/api/v1/topics", json={"channel_id": channel, "title": "t"}).json()["topic"]["id"]
        body = {"topic_id": topic, "sender": "ann", "content_raw": "hello https://example.org"}
        message = client.post("/api/v1/messages", json=body).json()["message"]["id"]
    return {"channel_id": channel, "topic_id": topic, "message_id": message}


def _cases(path: str, method: str, mode: GenerationMode, ids: dict[str, str] | None) -> st.SearchStrategy[Any]:
    operation = schemathesis.openapi.from_dict(DOCUMENT)[path][method.upper()]
    if ids is None or "{" not in path:
        return operation.as_strategy(mode)
    return operation.as_strategy(
        mode, path_parameters={name: each for name, each in ids.items() if f"{{{name}}}" in path}
    )


def _call_all(hub: HubProcess, cases: st.SearchStrategy[Any]) -> None:
    server = hub.server
    headers = {"Authorization": f"Bearer {server.auth_token}", "Origin": server.base_url}

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=cases)
    def call(case: Any) -> None:
        response = case.call(base_url=server.base_url, headers=headers, timeout=DEADLINE_SECONDS)
        case.validate_response(response, checks=CHECKS)

    call()


@pytest.mark.parametrize(
    ("path", "method", "operation"), OPERATIONS, ids=lambda each: str(each) if isinstance(each, str) else ""
)
def test_what_the_document_allows_is_answered_as_documented(
    hub_process: HubProcess, real_ids: dict[str, str], path: str, method: str, operation: Any
) -> None:
    _call_all(hub_process, _cases(path, method, GenerationMode.POSITIVE, real_ids))


def _can_be_asked_wrongly(operation: dict[str, Any]) -> bool:
    """Whether the document forbids anything: a path that anybody may ask for may hold any text."""
    bounded = [each for each in operation.get("parameters", []) if operation["security"] or each["in"] != "path"]
    return bool(bounded) or "requestBody" in operation


@pytest.mark.parametrize(
    ("path", "method"),
    [(path, method) for path, method, operation in OPERATIONS if _can_be_asked_wrongly(operation)],
)
def test_what_the_document_forbids_is_refused_as_documented(hub_process: HubProcess, path: str, method: str) -> None:
    _call_all(hub_process, _cases(path, method, GenerationMode.NEGATIVE, None))


async def test_the_served_document_is_the_one_that_the_table_makes(hub: OpenHub) -> None:
    assert await hub.api.get("/openapi.json") == json.loads(json.dumps(DOCUMENT))


def test_the_document_is_openapi_3_1_and_names_each_operation_once() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names)


def test_every_endpoint_documents_what_any_request_may_meet() -> None:
    for path, _, operation in OPERATIONS:
        expected = {"200", "403", "500"}
        if operation["security"]:
            expected |= {"400", "401", "429", "503"}
        if "requestBody" in operation:
            expected |= {"413", "415"}
        assert expected <= set(operation["responses"]), path
