"""Leases: all or nothing, named holders, an end, and a generation that grows."""

from typing import Any

import pytest

from tests.hub.coordination import Team


async def test_paths_are_reserved_all_or_none_and_every_holder_in_the_way_is_named(team: Team) -> None:
    bob = (await team.lease("bob", "src/hub/**", reason="rewriting the feed"))["lease"]
    eve = (await team.lease("eve", "docs", mode="shared"))["lease"]
    refusal = await team.lease("ann", "README.md", "src/**/*.py", "docs/sdk.md", status=409)
    assert refusal["code"] == "LEASE_CONFLICT"
    assert refusal["details"]["conflicts"] == [
        {
            "lease_id": bob["id"],
            "holder": "bob",
            "mode": "exclusive",
            "pattern": "src/hub/**",
            "reason": "rewriting the feed",
            "expires_at": "2026-01-01T01:00:00.000Z",
            "wanted": "src/**/*.py",
        },
        {
            "lease_id": eve["id"],
            "holder": "eve",
            "mode": "shared",
            "pattern": "docs",
            "reason": None,
            "expires_at": "2026-01-01T01:00:00.000Z",
            "wanted": "docs/sdk.md",
        },
    ]
    assert "bob, eve" in refusal["error"]
    assert len((await team.api.get("/api/v1/leases"))["leases"]) == 2
    await team.lease("ann", "README.md")
    assert team.hub.fold_problems() == []


async def test_shared_leases_bear_each_other(team: Team) -> None:
    await team.lease("bob", "src/**", mode="shared")
    await team.lease("eve", "src/a.py", mode="shared")
    assert (await team.lease("ann", "src/a.py", status=409))["code"] == "LEASE_CONFLICT"


async def test_ones_own_leases_are_not_in_the_way(team: Team) -> None:
    first = (await team.lease("bob", "src/**"))["lease"]
    second = (await team.lease("bob", "src/a.py"))["lease"]
    assert second["generation"] == first["generation"] + 1


async def test_asking_again_for_what_one_has_renews_it(team: Team) -> None:
    first = (await team.lease("bob", "src/**", "docs/"))["lease"]
    team.hub.clock.advance(60)
    again = await team.lease("bob", "docs/**", "./src/**", status=200)
    assert (again["event_id"], again["lease"]["id"]) == (None, first["id"])
    assert again["lease"]["expires_at"] == "2026-01-01T01:01:00.000Z"
    other = await team.lease("bob", "src/**", mode="shared")
    assert other["lease"]["id"] != first["id"]
    assert team.hub.fold_problems() == []


async def test_a_lease_lasts_until_its_end_and_not_longer(team: Team) -> None:
    lease = (await team.lease("bob", "src/**", ttl_seconds=60))["lease"]
    team.hub.clock.advance(59.999)
    await team.sweep()
    await team.lease("eve", "src/a.py", status=409)
    team.hub.clock.advance(0.001)
    await team.lease("eve", "src/a.py")
    assert (await team.api.get(f"/api/v1/leases/{lease['id']}"))["lease"]["status"] == "expired"
    holder = {"holder": "bob", "generation": lease["generation"]}
    refusal = await team.lease_step(lease["id"], "renew", **holder, status=409)
    assert (refusal["code"], refusal["details"]["status"]) == ("LEASE_LOST", "expired")
    assert (await team.lease_step(lease["id"], "release", **holder))["event_id"] is None
    told = await team.told("lease")
    assert [name for name, _ in told] == ["lease.acquired", "lease.expired", "lease.acquired"]
    assert (told[1][1]["lease"]["id"], told[1][1]["lease"]["status"]) == (lease["id"], "expired")
    assert team.hub.fold_problems() == []


async def test_the_end_of_a_lease_that_nobody_follows_is_written_down_by_the_sweeper(team: Team) -> None:
    lease = (await team.lease("bob", "src/**", ttl_seconds=60))["lease"]
    team.hub.clock.advance(60)
    await team.sweep()
    name, payload = (await team.told("lease"))[-1]
    assert (name, payload["lease"]["id"]) == ("lease.expired", lease["id"])


async def test_a_clock_that_is_set_back_brings_no_lease_back_whose_paths_another_has(team: Team) -> None:
    first = (await team.lease("bob", "src/**", ttl_seconds=60))["lease"]
    team.hub.clock.advance(60)
    second = (await team.lease("eve", "src/a.py"))["lease"]
    team.hub.clock.jump(-30_000)
    assert [lease["id"] for lease in (await team.api.get("/api/v1/leases"))["leases"]] == [second["id"]]
    refusal = await team.lease_step(first["id"], "renew", holder="bob", generation=1, status=409)
    assert refusal["details"]["loss"] == "not_held"


async def test_a_renewal_pushes_the_end_on_and_is_not_an_event(team: Team) -> None:
    lease = (await team.lease("bob", "src/**", ttl_seconds=60))["lease"]
    team.hub.clock.advance(30)
    renewed = await team.lease_step(lease["id"], "renew", holder="bob", generation=1, ttl_seconds=60)
    assert (renewed["event_id"], renewed["lease"]["expires_at"]) == (None, "2026-01-01T00:01:30.000Z")
    assert len(await team.told("lease")) == 1
    assert team.hub.fold_problems() == []


@pytest.mark.parametrize(
    ("fields", "loss"),
    [({"holder": "eve", "generation": 1}, "other_holder"), ({"holder": "bob", "generation": 7}, "other_generation")],
)
@pytest.mark.parametrize("op", ["renew", "release"])
async def test_only_its_holder_at_its_generation_may_change_a_lease(
    team: Team, op: str, fields: dict[str, Any], loss: str
) -> None:
    lease = (await team.lease("bob", "src/**"))["lease"]
    refusal = await team.lease_step(lease["id"], op, **fields, status=409)
    assert (refusal["code"], refusal["details"]["loss"], refusal["details"]["holder"]) == ("LEASE_LOST", loss, "bob")


async def test_a_released_lease_frees_its_paths_and_says_who_and_why(team: Team) -> None:
    lease = (await team.lease("bob", "src/**"))["lease"]
    released = await team.lease_step(lease["id"], "release", holder="bob", generation=1, reason="done")
    assert (released["lease"]["status"], released["lease"]["released_at"]) == ("released", "2026-01-01T00:00:00.000Z")
    name, payload = (await team.told("lease"))[-1]
    assert (name, payload["actor"], payload["reason"]) == ("lease.released", "bob", "done")
    again = await team.lease_step(lease["id"], "release", holder="bob", generation=1)
    assert again["event_id"] is None
    assert (await team.lease("eve", "src/**"))["lease"]["generation"] == 2
    assert team.hub.fold_problems() == []


async def test_which_paths_are_taken_and_by_whom(team: Team) -> None:
    await team.lease("bob", "src/hub/**", "docs")
    await team.lease("eve", "src/**", mode="shared", status=409)
    await team.lease("eve", "tests/**", mode="shared")
    paths = ["src/hub/a.py", "docs/sdk.md", "tests/a.py", "README.md"]

    async def taken(**fields: Any) -> list[tuple[str, str]]:
        body = {"paths": paths, **fields}
        answer = await team.api.call("POST", "/api/v1/leases/check", body)
        assert answer["checked"] == 4
        return [(hit["wanted"], hit["holder"]) for hit in answer["hits"]]

    assert await taken() == [("src/hub/a.py", "bob"), ("docs/sdk.md", "bob")]
    assert await taken(holder="bob") == []
    assert await taken(holder="bob", mode="exclusive") == [("tests/a.py", "eve")]
    assert await taken(holder="eve") == [("src/hub/a.py", "bob"), ("docs/sdk.md", "bob")]
    team.hub.clock.advance(3600)
    assert await taken() == []


async def test_a_path_with_wildcards_in_its_name_is_only_itself(team: Team) -> None:
    await team.lease("bob", "src/a.py")
    answer = await team.api.call("POST", "/api/v1/leases/check", {"paths": ["src/*.py", "src/[a].py", "src/a.py"]})
    assert [hit["wanted"] for hit in answer["hits"]] == ["src/a.py"]


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../other", "a/../../b", "a\\b", "[ab"])
async def test_a_pattern_that_is_none_is_refused(team: Team, pattern: str) -> None:
    refusal = await team.lease("bob", pattern, status=400)
    assert refusal["details"]["field"] == "patterns"
    assert (await team.api.call("POST", "/api/v1/leases/check", {"paths": ["../x"]}, status=400))["code"]


async def test_a_lease_needs_one_to_fifty_patterns(team: Team) -> None:
    await team.lease("bob", status=400)
    await team.lease("bob", *(f"a{number}" for number in range(51)), status=400)
    await team.lease("bob", *(f"a{number}" for number in range(50)))


async def test_leases_are_listed_as_they_are_now(team: Team) -> None:
    first = (await team.lease("bob", "a", ttl_seconds=10))["lease"]["id"]
    second = (await team.lease("bob", "b"))["lease"]["id"]
    third = (await team.lease("eve", "c"))["lease"]["id"]
    await team.lease_step(third, "release", holder="eve", generation=3)
    team.hub.clock.advance(10)

    async def listed(**params: Any) -> list[str]:
        return [lease["id"] for lease in (await team.api.call("GET", "/api/v1/leases", params=params))["leases"]]

    assert await listed() == [second]
    assert await listed(status="expired") == [first]
    assert await listed(status="released") == [third]
    assert await listed(status="all") == [third, second, first]
    assert await listed(status="all", holder="eve") == [third]
    page = await team.api.call("GET", "/api/v1/leases?status=all&limit=1")
    following = await team.api.call("GET", f"/api/v1/leases?status=all&limit=1&cursor={page['cursor']}")
    assert [lease["id"] for lease in following["leases"]] == [second]


async def test_a_retry_with_the_same_key_has_one_effect(team: Team) -> None:
    first = await team.lease("bob", "src/**", key="take")
    again = await team.lease("bob", "src/**", key="take", status=200)
    assert (again["duplicate"], again["event_id"], again["lease"]) == (True, first["event_id"], first["lease"])
    assert (await team.lease("bob", "docs", key="take", status=409))["code"] == "IDEMPOTENCY_KEY_REUSED"
    for op in ("renew", "release"):
        first = await team.lease_step(first["lease"]["id"], op, key=op, holder="bob", generation=1)
        again = await team.lease_step(first["lease"]["id"], op, key=op, holder="bob", generation=1)
        assert (again["duplicate"], again["event_id"]) == (True, first["event_id"])


async def test_what_does_not_exist_is_not_found(team: Team) -> None:
    await team.api.get("/api/v1/leases/lease_none", status=404)
    await team.lease_step("lease_none", "release", holder="bob", generation=1, status=404)
    await team.api.call("GET", "/api/v1/leases?status=lost", status=400)
