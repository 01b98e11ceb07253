"""The event catalogue and its scopes."""

from typing import Any

import pytest

from parley.core.events import EVENTS, scope_problem
from parley.wire.events import PAYLOADS

SCOPES = ("channel_id", "topic_id", "topic_id2")


def scopes(*filled: str) -> dict[str, Any]:
    return {scope: "x" if scope in filled else None for scope in SCOPES}


@pytest.mark.parametrize("name", EVENTS)
def test_each_event_passes_with_exactly_its_scopes(name: str) -> None:
    spec = EVENTS[name]
    assert spec.name == name
    for number in range(8):
        filled = [scope for bit, scope in enumerate(SCOPES) if number >> bit & 1]
        problem = scope_problem(name, **scopes(*filled))
        assert (problem is None) == (set(filled) == spec.scopes)


def test_a_wrong_scope_is_named() -> None:
    problem = scope_problem("message.created", **scopes("channel_id"))
    assert problem == "message.created must carry the scopes ['channel_id', 'topic_id'], not ['channel_id']"


def test_an_unknown_name_is_wrong() -> None:
    assert scope_problem("message.vanished", **scopes()) == "message.vanished is not in the event catalogue"


def test_every_name_has_a_typed_payload_with_the_fields_of_the_catalogue() -> None:
    assert set(PAYLOADS) == set(EVENTS)
    for name, payload in PAYLOADS.items():
        assert payload.__struct_fields__ == EVENTS[name].fields, name


def test_events_about_one_thing_carry_its_name_and_a_meaning() -> None:
    for spec in EVENTS.values():
        assert spec.entity in {
            "channel",
            "topic",
            "message",
            "attachment",
            "task",
            "lease",
            "agent",
            "workspace",
            "plugin",
        }
        assert spec.meaning
