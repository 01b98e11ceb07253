"""Lists of members come in pages, so that no mesh is too large for one frame; in both stores."""

from typing import Any

import msgspec
import pytest

from parley.broker.methods import CallMethod
from parley.broker.rules.members import Member, end_membership
from parley.broker.rules.profiles import SealedProfile, set_profile
from parley.broker.tx import Tx
from parley.core.limits import PAGE_LIMIT_MAX
from parley.wire.broker import Answer, encode_frame
from tests.conformance.broker.circle import Circle, join_many

JOINED, ACTIVE = 20_000, 3_000
FRAME_BYTES_MAX = 4 * 1024 * 1024
"""What every daemon takes, old ones included."""


def crowd(circle: Circle, joined: int, active: int) -> None:
    """So many more who ever joined, of whom the last ones still are members."""
    states = ["left"] * (joined - active) + ["active"] * active
    circle.store.call(lambda tx: join_many(tx, circle.mesh_id, states))


def ask(circle: Circle, method: str, caller: Member | None = None, **params: Any) -> dict[str, Any]:
    asked = CallMethod(circle.mesh_id, (caller or circle.ann).member_id, method, params)
    result = circle.store.call(asked).result
    assert len(encode_frame(Answer(1, result))) <= FRAME_BYTES_MAX
    assert "cursor" in result
    return result


def all_pages(circle: Circle, method: str, name: str, limit: int, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    page = ask(circle, method, limit=limit, **params)
    while True:
        assert len(page[name]) <= limit
        found += page[name]
        if page["cursor"] is None:
            return found
        page = ask(circle, method, limit=limit, after=page["cursor"], **params)


def test_m10_a_mesh_that_many_have_left_lists_who_is_in_it_page_by_page(circle: Circle) -> None:
    crowd(circle, JOINED, ACTIVE)
    active = all_pages(circle, "members", "members", PAGE_LIMIT_MAX)
    names = [each["display_name"] for each in active]
    assert len(names) == ACTIVE + 3
    assert set(names) == {"ann", "bob", "cid", *(f"p{n}" for n in range(JOINED - ACTIVE, JOINED))}
    assert {each["state"] for each in active} == {"active"}
    former = all_pages(circle, "members", "members", PAGE_LIMIT_MAX, former=True)
    assert {each["display_name"] for each in former} == {f"p{n}" for n in range(JOINED - ACTIVE)}
    assert {each["state"] for each in former} == {"left"}
    peers = all_pages(circle, "peers", "peers", PAGE_LIMIT_MAX)
    assert [each["display_name"] for each in peers] == names
    wanting = all_pages(circle, "keys_wanted", "wanted", PAGE_LIMIT_MAX)
    assert len(wanting) == ACTIVE + 2  # all but who asks


def test_m10_who_knows_no_pages_is_answered_with_what_fits_the_active_ones_first(circle: Circle) -> None:
    small = ask(circle, "members")
    assert [each["display_name"] for each in small["members"]] == ["ann", "bob", "cid"]
    circle.store.call(lambda tx: end_membership(tx, circle.mesh_id, circle.cid.member_id, "banned"))
    with_former = ask(circle, "members")
    assert [each["state"] for each in with_former["members"]] == ["active", "active", "banned"]
    assert with_former["cursor"] is None
    crowd(circle, JOINED, ACTIVE)
    large = ask(circle, "members")
    states = [each["state"] for each in large["members"]]
    assert states[: ACTIVE + 2] == ["active"] * (ACTIVE + 2)
    assert large["cursor"] is None, "all active members are there, so nothing of theirs is left"
    assert len(msgspec.json.encode(large)) > FRAME_BYTES_MAX // 2
    for method in ("peers", "keys_wanted"):
        assert ask(circle, method)["cursor"] is None


def test_m10_a_page_ends_before_it_is_too_large_for_a_frame_also_when_it_has_few_members(circle: Circle) -> None:
    """A profile may have 24 KiB, so that 200 of them are more than a frame."""
    crowd(circle, 400, 400)
    ids = [each["member_id"] for each in all_pages(circle, "members", "members", 100)]
    words = SealedProfile(True, "c" * 24_000, 1)

    def tell(tx: Tx) -> None:
        for each in ids:
            set_profile(tx, each, words)

    circle.store.call(tell)
    whole = ask(circle, "peers")
    assert 100 < len(whole["peers"]) < 200
    assert whole["cursor"] == whole["peers"][-1]["member_id"]
    seen = all_pages(circle, "peers", "peers", PAGE_LIMIT_MAX)
    assert [each["member_id"] for each in seen] == ids


def test_m10_members_who_stay_out_of_the_list_do_not_end_it(circle: Circle) -> None:
    crowd(circle, 30, 30)
    ids = [each["member_id"] for each in all_pages(circle, "members", "members", 100)]

    def hide(tx: Tx) -> None:
        for each in ids[:20]:
            set_profile(tx, each, SealedProfile(False, None, None))

    circle.store.call(hide)
    assert [each["member_id"] for each in all_pages(circle, "peers", "peers", 5)] == [ids[0], *ids[20:]]


def test_m10_who_comes_and_goes_between_two_pages_moves_nobody(circle: Circle) -> None:
    crowd(circle, 20, 20)
    first = ask(circle, "members", limit=10)
    gone = [first["members"][3]["member_id"], circle.bob.member_id]
    for each in gone:
        circle.store.call(lambda tx, member_id=each: end_membership(tx, circle.mesh_id, member_id, "left"))
    circle.join("dan")
    rest = ask(circle, "members", limit=100, after=first["cursor"])
    names = [each["display_name"] for each in (*first["members"], *rest["members"])]
    assert names == ["ann", "bob", "cid", *(f"p{n}" for n in range(20)), "dan"]
    assert rest["cursor"] is None


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": PAGE_LIMIT_MAX + 1}, {"after": 5}, {"former": "yes"}])
def test_m10_pages_that_make_no_sense_are_refused(circle: Circle, params: dict[str, Any]) -> None:
    asked = CallMethod(circle.mesh_id, circle.ann.member_id, "members", params)
    (outcome,) = circle.store.commit([asked])
    assert getattr(outcome.error, "code", None) == "INVALID_INPUT"
