"""Nothing that crosses a wire is removed, renamed, retyped or newly required: the daemon's local API.

To record an addition, run this file with ``PARLEY_UPDATE_SNAPSHOTS=1`` in the environment and commit what changed in
``snapshots/``. A route without a call in ``daemon_wire.py`` fails until it has one.
"""

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from parley.daemon.http.table import ENDPOINTS
from tests.broker.process import broker
from tests.compat import daemon_wire
from tests.compat.contract import Shape, losses, members_of
from tests.compat.frozen import path_of, write
from tests.daemon.homes import Home, World

UPDATE = os.environ.get("PARLEY_UPDATE_SNAPSHOTS") == "1"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A broker and two daemons, in a folder with a short name, as the path of a socket must be."""
    folder = Path(tempfile.mkdtemp(prefix="p-"))
    try:
        with broker(folder / "broker", "--open-creation") as serving, ExitStack() as stopping:
            yield World(serving, folder, stopping, daemon_wire.SETTINGS)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def bob(world: World) -> Home:
    made = world.joined("bob")
    world.ann.asks("mesh", "create", "side", "--broker", world.process.http, "--name", "ann")
    return made


def held(name: str, now: dict[str, Any]) -> None:
    """Holds what was seen to its snapshot."""
    if UPDATE:
        write(name, now)
    assert losses(frozen(name), now) == []


def frozen(name: str) -> Any:
    return json.loads(path_of(name).read_text())


def test_the_daemons_api_is_as_its_callers_know_it(world: World, bob: Home) -> None:
    held("daemon_api", daemon_wire.daemon_contract(world, bob))


def test_every_route_of_the_daemon_is_frozen() -> None:
    assert {f"{each.method} {each.path}" for each in ENDPOINTS} - set(frozen("daemon_api")["routes"]) == set()


CHANGES: tuple[tuple[str, Callable[[Any], object], str], ...] = (
    ("daemon_api", lambda d: d["routes"].pop("POST /v1/send"), "/routes/POST /v1/send is gone"),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["query"].remove("since"),
        "/routes/GET /v1/inbox/query no longer has 'since'",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["answers"]["200"].pop("items[].seen_at"),
        "/routes/GET /v1/inbox/answers/200/items[].seen_at is gone",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["answers"]["200"].update({"items[].seq": "string"}),
        "/routes/GET /v1/inbox/answers/200/items[].seq is no longer integer",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["GET /v1/inbox"]["answers"]["200"].update({"items[].mesh": "null | string"}),
        "/routes/GET /v1/inbox/answers/200/items[].mesh can be null now",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["POST /v1/send"]["body"]["priority"].update(required=True),
        "/routes/POST /v1/send/body/priority is required now",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["POST /v1/send"]["body"].update(colour={"required": True, "takes": "string"}),
        "/routes/POST /v1/send/body/colour is new and required",
    ),
    (
        "daemon_api",
        lambda d: d["routes"]["POST /v1/send"]["body"]["mesh"].update(takes="string"),
        "/routes/POST /v1/send/body/mesh no longer takes null",
    ),
    ("daemon_api", lambda d: d["events"]["message"].pop("body"), "/events/message/body is gone"),
    ("daemon_api", lambda d: d["refusals"].pop("404 NOT_FOUND"), "/refusals/404 NOT_FOUND is gone"),
)


@pytest.mark.parametrize(("name", "change", "found"), CHANGES, ids=[found for _, _, found in CHANGES])
def test_control_a_change_that_breaks_somebody_is_found(name: str, change: Callable[[Any], object], found: str) -> None:
    now = frozen(name)
    change(now)
    assert found in losses(frozen(name), now)


def test_additions_pass() -> None:
    more = frozen("daemon_api")
    more["routes"]["GET /v1/new"] = {"body": {"x": {"required": True, "takes": "string"}}}
    more["routes"]["POST /v1/send"]["body"]["colour"] = {"required": False, "takes": "string"}
    more["routes"]["GET /v1/inbox"]["answers"]["200"]["items[].colour"] = "string"
    assert losses(frozen("daemon_api"), more) == []


def test_a_shape_tells_what_is_sometimes_absent_or_null_and_what_is_a_map() -> None:
    shape = Shape(["by_name"]).add({"a": 1, "list": [{"b": None}, {"b": "x", "c": 1.5}], "by_name": {"k": True}})
    shape.add({"list": [], "by_name": {}})
    assert shape.seen() == {
        "a": "absent | integer",
        "by_name": "object",
        "by_name.*": "boolean",
        "list": "array",
        "list[]": "object",
        "list[].b": "null | string",
        "list[].c": "absent | number",
    }


def test_members_of_a_request_are_found_by_asking() -> None:
    def taken(body: Any) -> bool:
        numbers = body.get("numbers", [])
        if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
            return False
        return isinstance(body.get("name"), str) and body.get("kind", "a") in ("a", "b")

    example = {"name": "n", "kind": "a", "numbers": [1], "ignored": 1}
    assert members_of(copy.deepcopy(example), taken, kind=("a", "b", "c")) == {
        "name": {"takes": "string", "required": True},
        "kind": {"takes": "string", "required": False, "values": ["a", "b"]},
        "numbers": {"takes": "array", "required": False},
        "numbers[]": {"takes": "integer"},
        "ignored": {"takes": "array | boolean | integer | null | number | object | string", "required": False},
    }
