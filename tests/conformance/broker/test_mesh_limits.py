"""What a mesh may hold is changed after it was made, on both stores, and the audit log tells who did."""

import dataclasses
import json

import pytest

from parley.broker.methods import CallMethod
from parley.broker.rules import audit
from parley.broker.rules.members import create_mesh
from parley.broker.rules.mesh_limits import ChangeLimits, all_limits, limits_of
from parley.core.broker_errors import NotAllowed, QuotaExceeded
from parley.core.errors import InvalidInput, NotFound
from parley.wire.mesh_http import SetLimits
from tests.conformance.broker.circle import Circle, make_send


def log(circle: Circle) -> list[tuple[str, str, dict[str, object]]]:
    rows = circle.rows("SELECT event, actor, payload FROM audit WHERE mesh_id = ? ORDER BY number", circle.mesh_id)
    return [(event, actor, json.loads(payload)) for event, actor, payload in rows]


def test_a_lower_quota_refuses_what_comes_and_keeps_what_is_there(circle: Circle) -> None:
    circle.accepted(circle.ann, make_send("c1", body=b"x" * 900))
    circle.store.call(ChangeLimits(SetLimits("red", bytes_max=1024)))
    assert circle.refused(circle.ann, make_send("c2", body=b"x" * 900)).problem.code == "QUOTA_EXCEEDED"
    assert circle.counts()["message"] == 1
    circle.store.call(ChangeLimits(SetLimits("red", bytes_max=4096)))
    circle.accepted(circle.ann, make_send("c2", body=b"x" * 900))


def test_a_higher_quota_lets_more_members_in(circle: Circle) -> None:
    circle.store.call(ChangeLimits(SetLimits("red", members_max=3)))
    with pytest.raises(QuotaExceeded):
        circle.join("dan")
    found = circle.store.call(ChangeLimits(SetLimits("red", members_max=4)))
    circle.join("dan")
    assert (found.members, found.members_max) == (3, 4)
    other = circle.store.call(lambda tx: limits_of(tx, circle.other_mesh_id))
    assert other.members_max == circle.policy.members_max


def test_a_change_of_limits_is_audited_and_one_that_changes_nothing_is_not(circle: Circle) -> None:
    before = circle.policy.members_max
    for _ in range(2):
        circle.store.call(ChangeLimits(SetLimits("red", members_max=7)))
    assert log(circle) == [("mesh_limits_changed", "operator", {"members_max": 7, "was": {"members_max": before}})]
    assert circle.store.call(lambda tx: audit.verify(tx, circle.mesh_id)) is None


def test_a_mesh_that_is_not_there_has_no_limits(circle: Circle) -> None:
    with pytest.raises(NotFound):
        circle.store.call(ChangeLimits(SetLimits("green", members_max=7)))
    with pytest.raises(NotFound):
        circle.store.call(lambda tx: limits_of(tx, "mesh_none"))
    assert [each.slug for each in circle.store.call(all_limits)] == ["blue", "red"]


def test_a_new_mesh_has_the_limits_and_the_policy_that_the_broker_gives(circle: Circle) -> None:
    policy = dataclasses.replace(circle.policy, members_max=2, bytes_max=2048, connection_policy="prefer_oldest")
    made = circle.store.call(lambda tx: create_mesh(tx, "green", "Green", policy))
    found = circle.store.call(lambda tx: limits_of(tx, made.mesh_id))
    assert (found.members_max, found.bytes_max, found.connection_policy) == (2, 2048, "prefer_oldest")


def test_an_owner_sets_the_connection_policy_and_nobody_else_does(circle: Circle) -> None:
    def call(member_id: str, policy: str) -> dict[str, object]:
        params = {"policy": policy}
        return circle.store.call(CallMethod(circle.mesh_id, member_id, "set_connection_policy", params)).result

    with pytest.raises(NotAllowed):
        call(circle.bob.member_id, "prefer_oldest")
    with pytest.raises(InvalidInput):
        call(circle.ann.member_id, "prefer_me")
    assert call(circle.ann.member_id, "prefer_oldest") == {"connection_policy": "prefer_oldest", "changed": True}
    assert call(circle.ann.member_id, "prefer_oldest")["changed"] is False
    shown = circle.store.call(CallMethod(circle.mesh_id, circle.bob.member_id, "mesh", {})).result
    assert (shown["slug"], shown["members"], shown["connection_policy"]) == ("red", 3, "prefer_oldest")
    ((event, actor, payload),) = log(circle)
    assert (event, actor) == ("connection_policy_changed", circle.ann.member_id)
    assert payload["was"] == {"connection_policy": "prefer_newest"}
