"""Nothing public is removed or renamed: OpenAPI, events, close codes, error codes, exit codes, settings, metrics."""

import copy
from typing import Any

import pytest

from tests.compat.frozen import UPDATE, current, frozen, losses, write

NAMES = sorted(current())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_committed_snapshot_is_gone(name: str) -> None:
    if UPDATE:
        write(name, current()[name])
    assert losses(frozen(name), current()[name]) == []


@pytest.mark.parametrize("name", NAMES)
def test_additions_pass(name: str) -> None:
    more = copy.deepcopy(current()[name])
    more["something.new"] = {"entity": "x"}
    assert losses(frozen(name), more) == []


@pytest.mark.parametrize("name", NAMES)
def test_control_a_removed_name_is_found(name: str) -> None:
    less = copy.deepcopy(current()[name])
    gone = sorted(less)[0]
    del less[gone]
    assert losses(frozen(name), less) == [f"/{gone} is gone"]


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("openapi", lambda d: d["paths"]["/api/v1/channels"].pop("post"), "/paths//api/v1/channels/post is gone"),
        (
            "openapi",
            lambda d: d["components"]["schemas"]["Message"]["properties"].pop("sender"),
            "/components/schemas/Message/properties/sender is gone",
        ),
        (
            "openapi",
            lambda d: d["components"]["schemas"]["CreateChannel"]["required"].append("colour"),
            "/components/schemas/CreateChannel now requires 'colour'",
        ),
        (
            "openapi",
            lambda d: d["paths"]["/api/v1/messages"]["get"]["parameters"].pop(0),
            "/paths//api/v1/messages/get/parameters/topic_id is gone",
        ),
        (
            "openapi",
            lambda d: d["components"]["schemas"]["OneTopic"]["properties"]["topic"].update(
                {"$ref": "#/components/schemas/Channel"}
            ),
            "/components/schemas/OneTopic/properties/topic/properties/title is gone",
        ),
        (
            "events",
            lambda d: d["message.edited"]["fields"].remove("version"),
            "/message.edited/fields no longer has 'version'",
        ),
        ("close_codes", lambda d: d["1008"].update(reconnect=False), "/1008/reconnect was True and is False"),
        ("error_codes", lambda d: d["NOT_FOUND"].update(status=410), "/NOT_FOUND/status was 404 and is 410"),
        ("exit_codes", lambda d: d.update(CONFLICT=9), "/CONFLICT was 2 and is 9"),
    ],
)
def test_control_a_change_of_meaning_is_found(name: str, change: Any, found: str) -> None:
    changed = copy.deepcopy(current()[name])
    change(changed)
    assert found in losses(frozen(name), changed)
