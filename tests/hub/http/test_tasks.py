"""Tasks: who may do what, until when, and what the log says of it."""

from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.coordination import Team

TTL = 1800


async def test_a_task_comes_with_a_topic_of_its_title(team: Team) -> None:
    task = await team.task("Fix the feed", description="It stalls.")
    topic = (await team.api.get(f"/api/v1/topics/{task['topic_id']}"))["topic"]
    assert (topic["title"], topic["channel_id"]) == ("Fix the feed", team.channel_id)
    assert (task["status"], task["holder"], task["generation"], task["description"]) == ("open", None, 0, "It stalls.")
    assert [name for name, _ in await team.told("topic", "task")] == ["topic.created", "task.created"]
    assert team.hub.fold_problems() == []


async def test_a_task_can_be_the_companion_of_a_topic_that_is_there(team: Team) -> None:
    topic_id = await team.api.topic(team.channel_id, "Talk")
    task = await team.task("Do what was said", topic_id=topic_id)
    assert task["topic_id"] == topic_id
    body = {"title": "again", "created_by": "ann", "topic_id": topic_id}
    refusal = await team.api.call("POST", "/api/v1/tasks", body, status=400)
    assert refusal["details"]["field"] == "topic_id"


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, 400), ({"channel_id": "ch_none"}, 404), ({"topic_id": "topic_none"}, 404)],
    ids=["neither", "no channel", "no topic"],
)
async def test_a_task_needs_a_place(team: Team, fields: dict[str, Any], status: int) -> None:
    await team.api.call("POST", "/api/v1/tasks", {"title": "a", "created_by": "ann", **fields}, status=status)
    assert await team.told("task") == []


async def test_a_topic_of_another_channel_is_refused(team: Team) -> None:
    topic_id = await team.api.topic(await team.api.channel("other"))
    body = {"title": "a", "created_by": "ann", "topic_id": topic_id, "channel_id": team.channel_id}
    await team.api.call("POST", "/api/v1/tasks", body, status=400)


async def test_the_id_of_a_task_stands_for_its_topic_everywhere(team: Team) -> None:
    api, task = team.api, await team.task("One")
    thread, topic_id = task["id"], task["topic_id"]
    message = await api.post(thread, "a word about it")
    assert message["topic_id"] == topic_id
    assert (await api.get(f"/api/v1/topics/{thread}"))["topic"]["id"] == topic_id
    assert (await api.get("/api/v1/messages", topic_id=thread))["messages"] == [message]
    assert (await api.get("/api/v1/search", query="word", topic_id=thread))["messages"] == [message]
    body = {"kind": "note", "value_json": {"a": 1}}
    await api.call("POST", f"/api/v1/topics/{thread}/attachments", body, status=201)
    assert len((await api.get(f"/api/v1/topics/{thread}/attachments"))["attachments"]) == 1
    await api.call("PATCH", f"/api/v1/topics/{thread}", {"title": "Uno"})
    assert {event["scope"]["topic_id"] for event in await api.events(topic_id=thread)} == {topic_id}
    other = await team.task("Two")
    moved = await api.patch(message["id"], "move_topic", to_topic_id=other["id"], mode="one")
    assert moved["affected_count"] == 1
    assert (await api.get(f"/api/v1/messages/{message['id']}"))["message"]["topic_id"] == other["topic_id"]
    assert (await api.get(f"/api/v1/tasks/{topic_id}"))["task"]["id"] == thread
    assert team.hub.fold_problems() == []


async def test_of_two_who_claim_one_gets_the_task(team: Team) -> None:
    task = await team.task()
    claimed = await team.claim(task["id"], "bob")
    assert (claimed["status"], claimed["holder"], claimed["generation"]) == ("claimed", "bob", 1)
    refusal = await team.step(task["id"], "claim", holder="eve", status=409)
    assert refusal["code"] == "TASK_HELD"
    assert refusal["details"]["holder"] == "bob"
    assert refusal["details"]["lease_expires_at"] == claimed["lease_expires_at"]


async def test_a_holder_that_claims_again_fences_off_its_own_past(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    again = await team.claim(task["id"], "bob")
    assert again["generation"] == 2
    refusal = await team.step(task["id"], "complete", holder="bob", generation=1, status=409)
    assert (refusal["code"], refusal["details"]["loss"]) == ("TASK_NOT_HELD", "other_generation")
    await team.step(task["id"], "complete", holder="bob", generation=2)
    assert (await team.told("task"))[2][1]["previous_holder"] == "bob"


async def test_a_claim_ends_at_its_end_and_not_before(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob", ttl_seconds=60)
    team.hub.clock.advance(59.999)
    await team.sweep()
    assert (await team.get_task(task["id"]))["holder"] == "bob"
    team.hub.clock.advance(0.001)
    assert (await team.get_task(task["id"]))["status"] == "open"
    refusal = await team.step(task["id"], "renew", holder="bob", generation=1, status=409)
    assert refusal["details"]["loss"] == "expired"
    assert [name for name, _ in await team.told("task")] == ["task.created", "task.claimed"]
    await team.sweep()
    name, payload = (await team.told("task"))[-1]
    assert (name, payload["previous_holder"], payload["task"]["status"]) == ("task.expired", "bob", "open")
    assert team.hub.fold_problems() == []


async def test_a_renewal_pushes_the_end_on_and_is_not_an_event(team: Team) -> None:
    task = await team.task()
    first = await team.claim(task["id"], "bob", ttl_seconds=60)
    team.hub.clock.advance(30)
    before = len(await team.told("task"))
    renewed = await team.step(task["id"], "renew", holder="bob", generation=1, ttl_seconds=60)
    assert renewed["event_id"] is None
    assert renewed["task"]["lease_expires_at"] > first["lease_expires_at"]
    shorter = await team.step(task["id"], "renew", holder="bob", generation=1, ttl_seconds=1)
    assert shorter["task"]["lease_expires_at"] == renewed["task"]["lease_expires_at"]
    assert len(await team.told("task")) == before
    assert team.hub.fold_problems() == []


async def test_a_claim_that_has_ended_is_written_down_before_the_next_one(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    team.hub.clock.advance(TTL)
    claimed = await team.claim(task["id"], "eve")
    assert claimed["generation"] == 2
    assert [name for name, _ in await team.told("task")] == [
        "task.created",
        "task.claimed",
        "task.expired",
        "task.claimed",
    ]
    refusal = await team.step(task["id"], "complete", holder="bob", generation=1, status=409)
    assert (refusal["details"]["holder"], refusal["details"]["generation"]) == ("eve", 2)


async def test_longer_than_allowed_is_refused_with_the_limit(team: Team) -> None:
    task = await team.task()
    refusal = await team.step(task["id"], "claim", holder="bob", ttl_seconds=86_401, status=400)
    assert refusal["details"] == {"field": "ttl_seconds", "limit": 86_400}


async def test_the_settings_say_how_long_a_claim_lasts(make_hub: MakeHub) -> None:
    hub = await make_hub({"tasks": {"ttl_seconds": 10, "ttl_seconds_max": 20}})
    team = Team(hub, await hub.api.channel())
    task = await team.task()
    assert (await team.claim(task["id"], "bob"))["lease_expires_at"] == "2026-01-01T00:00:10.000Z"
    await team.step(task["id"], "claim", holder="bob", ttl_seconds=21, status=400)


async def test_a_task_that_is_given_back_is_open_for_the_next(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    released = await team.step(task["id"], "release", holder="bob", generation=1, reason="no time")
    assert (released["task"]["status"], released["task"]["holder"]) == ("open", None)
    name, payload = (await team.told("task"))[-1]
    assert (name, payload["actor"], payload["reason"], payload["previous_holder"]) == (
        "task.released",
        "bob",
        "no time",
        "bob",
    )
    assert (await team.claim(task["id"], "eve"))["generation"] == 2


async def test_what_is_completed_stays_completed(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    done = (await team.step(task["id"], "complete", holder="bob", generation=1, result="see the branch"))["task"]
    assert (done["status"], done["holder"], done["result"]) == ("completed", "bob", "see the branch")
    assert done["completed_at"] == "2026-01-01T00:00:00.000Z"
    again = await team.step(task["id"], "complete", holder="bob", generation=1, result="other words")
    assert (again["event_id"], again["task"]) == (None, done)
    for op, fields in (
        ("claim", {"holder": "eve"}),
        ("take_over", {"holder": "eve", "force": True, "reason": "why not"}),
        ("cancel", {"actor": "eve"}),
        ("release", {"holder": "bob", "generation": 1}),
    ):
        refusal = await team.step(task["id"], op, **fields, status=409)
        assert refusal["code"] == "TASK_CLOSED"
    assert team.hub.fold_problems() == []


async def test_a_task_can_be_called_off_whoever_holds_it(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    cancelled = await team.step(task["id"], "cancel", actor="ann", reason="not needed")
    assert (cancelled["task"]["status"], cancelled["task"]["holder"]) == ("cancelled", None)
    assert (await team.told("task"))[-1][1]["previous_holder"] == "bob"
    assert (await team.step(task["id"], "cancel", actor="ann"))["event_id"] is None
    assert (await team.step(task["id"], "complete", holder="bob", generation=1, status=409))["code"] == "TASK_CLOSED"


async def test_a_takeover_from_a_living_holder_needs_force_and_a_reason(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    assert (await team.step(task["id"], "take_over", holder="eve", status=409))["code"] == "TASK_HELD"
    refusal = await team.step(task["id"], "take_over", holder="eve", force=True, status=400)
    assert refusal["details"]["field"] == "reason"
    taken = await team.step(task["id"], "take_over", holder="eve", force=True, reason="bob hangs")
    assert (taken["task"]["holder"], taken["task"]["generation"]) == ("eve", 2)
    name, payload = (await team.told("task"))[-1]
    told = {key: payload[key] for key in ("actor", "reason", "previous_holder", "previous_generation", "forced")}
    assert name == "task.taken_over"
    assert told == {
        "actor": "eve",
        "reason": "bob hangs",
        "previous_holder": "bob",
        "previous_generation": 1,
        "forced": True,
    }
    assert (await team.step(task["id"], "complete", holder="bob", generation=1, status=409))["code"] == "TASK_NOT_HELD"


async def test_a_takeover_of_an_ended_claim_is_audited_and_not_forced(team: Team) -> None:
    task = await team.task()
    await team.claim(task["id"], "bob")
    team.hub.clock.advance(TTL)
    taken = await team.step(task["id"], "take_over", holder="eve", reason="it is late")
    assert taken["task"]["generation"] == 2
    name, payload = (await team.told("task"))[-1]
    assert (name, payload["forced"], payload["previous_holder"]) == ("task.taken_over", False, "bob")
    assert team.hub.fold_problems() == []


async def test_a_takeover_of_an_open_task_is_a_claim(team: Team) -> None:
    task = await team.task()
    assert (await team.step(task["id"], "take_over", holder="eve"))["task"]["holder"] == "eve"
    assert (await team.step(task["id"], "take_over", holder="eve"))["task"]["generation"] == 2
    assert [name for name, _ in await team.told("task")][-2:] == ["task.claimed", "task.claimed"]


async def test_whoever_asks_for_work_gets_the_oldest_open_task(team: Team) -> None:
    elsewhere = Team(team.hub, await team.api.channel("other"))
    first, second, far = await team.task("1"), await team.task("2"), await elsewhere.task("3")
    next_url = "/api/v1/tasks/claim_next"
    for holder, channel, expected in (
        ("bob", None, first),
        ("eve", elsewhere.channel_id, far),
        ("eve", None, second),
    ):
        answer = await team.api.call("POST", next_url, {"holder": holder, "channel_id": channel})
        assert (answer["task"]["id"], answer["task"]["holder"]) == (expected["id"], holder)
    answer = await team.api.call("POST", next_url, {"holder": "ann"})
    assert answer == {"task": None, "event_id": None}
    team.hub.clock.advance(TTL)
    answer = await team.api.call("POST", next_url, {"holder": "ann"})
    assert (answer["task"]["id"], answer["task"]["generation"]) == (first["id"], 2)
    await team.api.call("POST", next_url, {"holder": "ann", "channel_id": "ch_none"}, status=404)
    assert team.hub.fold_problems() == []


async def test_a_retry_with_the_same_key_has_one_effect(team: Team) -> None:
    task = await team.task()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("claim", {"holder": "bob"}),
        ("renew", {"holder": "bob", "generation": 1}),
        ("release", {"holder": "bob", "generation": 1}),
        ("take_over", {"holder": "eve"}),
        ("complete", {"holder": "eve", "generation": 2, "result": "done"}),
    ]
    for op, fields in steps:
        first = await team.step(task["id"], op, key=f"key-{op}", **fields)
        again = await team.step(task["id"], op, key=f"key-{op}", **fields)
        assert again["duplicate"] is True
        assert (again["event_id"], again["task"]) == (first["event_id"], first["task"])
    refusal = await team.step(task["id"], "complete", key="key-complete", holder="eve", generation=3, status=409)
    assert refusal["code"] == "IDEMPOTENCY_KEY_REUSED"
    headers = {"Idempotency-Key": "next"}
    other = await team.task("another")
    for _ in range(2):
        answer = await team.api.call("POST", "/api/v1/tasks/claim_next", {"holder": "bob"}, headers=headers)
        assert (answer["task"]["id"], answer["task"]["generation"]) == (other["id"], 1)
    body = {"title": "third", "created_by": "ann", "channel_id": team.channel_id}
    for status in (201, 200):
        await team.api.call("POST", "/api/v1/tasks", body, status=status, headers={"Idempotency-Key": "make"})
    assert len((await team.api.get("/api/v1/tasks"))["tasks"]) == 3


async def test_tasks_are_listed_as_they_are_now(team: Team) -> None:
    ids = [(await team.task(f"{number}"))["id"] for number in range(5)]
    await team.claim(ids[0], "bob", ttl_seconds=10)
    await team.claim(ids[1], "bob", ttl_seconds=60)
    await team.step(ids[2], "cancel", actor="ann")
    team.hub.clock.advance(10)

    async def listed(**params: Any) -> list[str]:
        return [task["id"] for task in (await team.api.call("GET", "/api/v1/tasks", params=params))["tasks"]]

    assert await listed() == ids[::-1]
    assert await listed(status="open") == [ids[4], ids[3], ids[0]]
    assert await listed(status="claimed") == [ids[1]]
    assert await listed(holder="bob") == [ids[1]]
    assert await listed(status="cancelled") == [ids[2]]
    assert await listed(channel_id="ch_none") == []
    page = await team.api.get("/api/v1/tasks", limit=2)
    assert page["has_more"]
    following = await team.api.get("/api/v1/tasks", limit=2, cursor=page["cursor"])
    assert [task["id"] for task in following["tasks"]] == [ids[2], ids[1]]


async def test_the_task_of_a_topic_is_found_by_it_and_its_absence_is_an_empty_list(team: Team) -> None:
    task = await team.task("One")
    await team.task("Two")
    found = await team.api.get(f"/api/v1/tasks?topic_id={task['topic_id']}")
    assert [each["id"] for each in found["tasks"]] == [task["id"]]
    assert (await team.api.get(f"/api/v1/tasks?topic_id={task['topic_id']}&status=claimed"))["tasks"] == []
    without = await team.api.topic(team.channel_id, "Talk")
    assert (await team.api.get(f"/api/v1/tasks?topic_id={without}"))["tasks"] == []


async def test_what_does_not_exist_is_not_found(team: Team) -> None:
    await team.api.get("/api/v1/tasks/task_none", status=404)
    await team.step("task_none", "claim", holder="bob", status=404)
    await team.api.call("GET", "/api/v1/tasks?status=lost", status=400)
