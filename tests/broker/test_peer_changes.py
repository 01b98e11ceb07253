"""What is told of peers: together, and never more than fits, however many come at once."""

from typing import Any

from parley.broker.peer_changes import NAMES_MAX, PeerChanges
from parley.daemon.notices import events_of
from parley.wire.broker import Notice


def told(changes: PeerChanges) -> dict[str, dict[str, Any]]:
    return {mesh_id: notice.data for mesh_id, notice in changes.take()}


def test_what_happens_within_a_moment_is_one_notice_for_each_mesh() -> None:
    changes = PeerChanges()
    for member in ("a", "b"):
        assert changes.take_in("m1", Notice("peer_connected", {"member_id": member}))
    assert changes.take_in("m1", Notice("presence", {"member_id": "a", "status": "working"}))
    assert changes.take_in("m1", Notice("presence", {"member_id": "a", "status": "dnd"}))
    changes.connected("m2", "c", False)
    assert told(changes) == {
        "m1": {"connected": ["a", "b"], "disconnected": [], "presence": {"a": "dnd"}, "more": 0},
        "m2": {"connected": [], "disconnected": ["c"], "presence": {}, "more": 0},
    }
    assert told(changes) == {}


def test_who_goes_and_is_back_at_once_was_never_away() -> None:
    changes = PeerChanges()
    changes.connected("m", "a", False)
    changes.connected("m", "a", True)
    assert told(changes) == {}
    changes.connected("m", "a", True)
    changes.connected("m", "a", False)
    assert told(changes)["m"]["disconnected"] == ["a"]


def test_what_all_must_know_at_once_does_not_wait() -> None:
    changes = PeerChanges()
    for name in ("member_joined", "member_gone", "key_given", "key_wanted", "member_keypair_rotated"):
        assert not changes.take_in("m", Notice(name, {"member_id": "a"}))
    assert told(changes) == {}


def test_a_storm_is_a_few_names_and_a_number() -> None:
    changes = PeerChanges()
    for number in range(1000):
        changes.connected("m", f"mem_{number}", True)
    (notice,) = (notice for _, notice in changes.take())
    assert len(notice.data["connected"]) == NAMES_MAX
    assert notice.data["more"] == 1000 - NAMES_MAX
    events = events_of(notice, "mem_0")
    assert [each.kind for each in events] == ["peer_join"] * (NAMES_MAX - 1) + ["system"]
    assert events[-1].data == {"name": "peers_changed", "more": 950}


def test_a_notice_that_is_not_of_the_form_is_written_down_without_what_it_says() -> None:
    assert events_of(Notice("peers_changed", {"connected": 7}), "me")[0].data == {"name": "peers_changed"}
    assert events_of(Notice("member_gone", {"member_id": "a"}), "me")[0].kind == "peer_leave"
    assert events_of(Notice("key_given", {}), "me")[0].kind == "system"
    assert events_of(Notice("peers_changed", {"connected": ["me"]}), "me") == []
