"""An endpoint says that it takes an idempotency key where its handler looks at it, and nowhere else."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from parley.broker.http import ABOUT as BROKER_ABOUT
from parley.broker.http import ENDPOINTS as BROKER
from parley.core.errors import IdempotencyKeyReused
from parley.daemon.http.table import ABOUT as DAEMON_ABOUT
from parley.daemon.http.table import ENDPOINTS as DAEMON
from parley.hub.http.table import ABOUT as HUB_ABOUT
from parley.hub.http.table import ENDPOINTS as HUB
from parley.serve.endpoint import Endpoint
from parley.serve.openapi import About, openapi_document

SERVERS: dict[str, tuple[tuple[Endpoint[Any], ...], About]] = {
    "hub": (HUB, HUB_ABOUT),
    "daemon": (DAEMON, DAEMON_ABOUT),
    "broker": (BROKER, BROKER_ABOUT),
}
ALL = [endpoint for endpoints, _ in SERVERS.values() for endpoint in endpoints]


def looks_at_the_key(handler: Callable[..., Any]) -> bool:
    """Whether ``call.key`` is read in this function, or in one that it hands its call to."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(handler)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "key" and _is_the_call(node.value):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and any(map(_is_the_call, node.args)):
            called = handler.__globals__.get(node.func.id)
            if inspect.isfunction(called) and looks_at_the_key(called):
                return True
    return False


def _is_the_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "call"


@pytest.mark.parametrize("endpoint", ALL, ids=lambda each: f"{each.method} {each.path}")
def test_an_endpoint_takes_a_key_where_its_handler_looks_at_it(endpoint: Endpoint[Any]) -> None:
    assert endpoint.takes_key == looks_at_the_key(endpoint.handler)
    assert IdempotencyKeyReused in endpoint.errors or not endpoint.takes_key


@pytest.mark.parametrize("server", SERVERS)
def test_the_header_is_documented_where_the_promise_is_kept(server: str) -> None:
    endpoints, about = SERVERS[server]
    told = {
        (method.upper(), path)
        for path, operations in openapi_document(endpoints, about)["paths"].items()
        for method, operation in operations.items()
        if any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", []))
    }
    assert told == {(each.method, each.path) for each in endpoints if each.takes_key}


def test_messages_of_a_hub_and_of_a_daemon_take_a_key_and_making_a_mesh_does_not() -> None:
    taking = {each.path for each in ALL if each.takes_key}
    assert {"/api/v1/messages", "/v1/send", "/v1/topic/post"} <= taking
    assert not {each.path for each in BROKER} & taking
