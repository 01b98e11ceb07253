"""Calls that make several writes, again under the same key: the same things are meant, and none that came since."""

from parley.core.limits import IDEMPOTENCY_KEY_CHARS_MAX
from tests.client.hubs import HubProcess
from tests.mcp.worlds import World, sitting


async def held(world: World) -> list[str]:
    (me,) = [each for each in (await world.call("who")).data["agents"] if each["name"] == "ann"]
    return [pattern for lease in me.get("leases", []) for pattern in lease["patterns"]]


async def test_a_release_of_all_that_is_repeated_means_what_was_held_at_first(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann:
        await ann.desk.link.join()
        for path in ("a", "b"):
            await ann.call("lease", paths=[path])
        first = await ann.call("release", idempotency_key="all")
        await ann.call("lease", paths=["c"])
    async with sitting(hub, "ann") as ann_after_a_crash:
        again = await ann_after_a_crash.call("release", idempotency_key="all")
        assert again.data == first.data
        assert sorted(pattern for lease in again.data["leases"] for pattern in lease["patterns"]) == ["a", "b"]
        assert await held(ann_after_a_crash) == ["c"]
        await ann_after_a_crash.call("release", idempotency_key="all-again")
        assert await held(ann_after_a_crash) == []


async def test_a_release_that_was_cut_off_halfway_gives_the_rest_back(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann:
        for path in ("a", "b"):
            await ann.call("lease", paths=[path])
        (lease, _) = (await ann.desk.link.client.list_leases(holder="ann")).leases
        await ann.desk.link.client.release_lease(lease.id, lease.generation, idempotency_key=f"all.{lease.id}")
        released = await ann.call("release", idempotency_key="all")
        assert [each["patterns"] for each in released.data["leases"]] == [["a"]]
        again = await ann.call("release", idempotency_key="all")
        assert again.data == released.data


async def test_the_longest_key_serves_a_call_that_writes_several_times(hub: HubProcess) -> None:
    key = "k" * IDEMPOTENCY_KEY_CHARS_MAX
    async with sitting(hub, "ann") as ann:
        first = await ann.call("post", channel="new", title="New", content="Hello", idempotency_key=key)
        again = await ann.call("post", channel="new", title="New", content="Hello", idempotency_key=key)
        assert (again.data["message_id"], again.data["duplicate"]) == (first.data["message_id"], True)
        await ann.call("lease", paths=["a"])
        released = await ann.call("release", idempotency_key=f"r{key[1:]}")
        assert len(released.data["leases"]) == 1
