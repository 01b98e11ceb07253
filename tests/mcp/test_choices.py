"""Calls that make several writes, again under the same key: the same things are meant, and none that came since."""

import pytest

from parley.core.errors import IdempotencyKeyReused, TaskHeld
from parley.core.limits import IDEMPOTENCY_KEY_CHARS_MAX
from tests.client.hubs import HubProcess
from tests.mcp.worlds import World, sitting


async def held(world: World) -> list[str]:
    (me,) = [each for each in (await world.call("who")).data["agents"] if each["name"] == "ann"]
    return [pattern for lease in me.get("leases", []) for pattern in lease["patterns"]]


async def test_a_release_of_all_that_is_repeated_means_what_was_held_at_first(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann:
        await ann.context.link.join()
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
        (lease, _) = (await ann.context.link.client.list_leases(holder="ann")).leases
        await ann.context.link.client.release_lease(lease.id, lease.generation, idempotency_key=f"all.{lease.id}")
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


async def new_task(world: World) -> str:
    return (await world.call("add_task", channel="general", title="Do it")).data["tasks"][0]["id"]


async def test_a_task_that_is_given_back_twice_under_one_key_stays_with_whoever_claimed_it_since(
    hub: HubProcess,
) -> None:
    async with sitting(hub, "ann") as ann, sitting(hub, "bob") as bob:
        task = await new_task(ann)
        await ann.call("claim_task", task=task)
        await ann.call("complete_task", task=task, give_back=True, result="tired", idempotency_key="back")
        await bob.call("claim_task", task=task)
        await ann.call("complete_task", task=task, give_back=True, result="tired", idempotency_key="back")
        (there,) = (await ann.call("tasks", status="claimed")).data["tasks"]
        assert (there["id"], there["holder"]) == (task, "bob")
        with pytest.raises(IdempotencyKeyReused):
            await ann.call("complete_task", task=task, give_back=True, result="bored", idempotency_key="back")


async def test_a_claim_that_is_repeated_under_its_key_makes_no_second_one(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann:
        task = await new_task(ann)
        first = await ann.call("claim_task", task=task, idempotency_key="mine")
        again = await ann.call("claim_task", task=task, idempotency_key="mine")
        assert again.data == first.data
        await ann.call("complete_task", task=task, give_back=True)
        await ann.call("claim_task", task=task, idempotency_key="mine")
        assert [each["id"] for each in (await ann.call("tasks")).data["tasks"]] == [task], "it stays open"


async def test_the_key_of_a_renewal_is_for_that_renewal_alone(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann:
        task = await new_task(ann)
        await ann.call("claim_task", task=task)
        renewed = await ann.call("claim_task", task=task, ttl_seconds=7200, idempotency_key="longer")
        again = await ann.call("claim_task", task=task, ttl_seconds=7200, idempotency_key="longer")
        assert again.data == renewed.data
        with pytest.raises(IdempotencyKeyReused):
            await ann.call("claim_task", task=task, ttl_seconds=9000, idempotency_key="longer")
        with pytest.raises(IdempotencyKeyReused):
            await ann.call("post", channel="general", title="Other", content="hi", idempotency_key="longer")
        await ann.call("complete_task", task=task, give_back=True)
        await ann.call("claim_task", task=task, ttl_seconds=7200, idempotency_key="longer")
        assert [each["id"] for each in (await ann.call("tasks")).data["tasks"]] == [task], "it stays open"


async def test_a_claim_that_was_refused_chooses_anew(hub: HubProcess) -> None:
    async with sitting(hub, "ann") as ann, sitting(hub, "bob") as bob:
        task = await new_task(ann)
        await bob.call("claim_task", task=task)
        with pytest.raises(TaskHeld):
            await ann.call("claim_task", task=task, idempotency_key="try")
        await bob.call("complete_task", task=task, give_back=True)
        (mine,) = (await ann.call("claim_task", task=task)).data["tasks"]
        (kept,) = (await ann.call("claim_task", task=task, idempotency_key="try")).data["tasks"]
        assert kept["generation"] == mine["generation"], "it is held already, so it is held for longer"
