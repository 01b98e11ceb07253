"""Agents: names, sessions, signs of life, and what becomes of what the dead have held."""

import pytest

from parley.core.clock import iso
from parley.workspace import queries
from tests.hub.conftest import MakeHub
from tests.hub.coordination import Team

GONE_AFTER = 30 * 60


async def test_the_same_name_and_session_are_the_same_agent(team: Team) -> None:
    first = await team.register("ann", program="editor", model="m-1", session="s1")
    assert first["agent"]["state"] == "active"
    team.hub.clock.advance(60)
    again = await team.register("ann", program="editor", model="m-1", session="s1", status=200)
    assert again["event_id"] is None
    assert again["agent"]["registered_at"] == first["agent"]["registered_at"]
    assert again["agent"]["last_seen_at"] == "2026-01-01T00:01:00.000Z"
    changed = await team.register("ann", model="m-2", session="s1")
    assert (changed["agent"]["program"], changed["agent"]["model"]) == ("editor", "m-2")
    assert [name for name, _ in await team.told("agent")] == ["agent.registered", "agent.changed"]
    assert team.hub.fold_problems() == []


async def test_another_session_with_the_name_of_a_living_one_is_refused_with_a_free_name(team: Team) -> None:
    await team.register("ann", session="s1", program="editor")
    await team.register("ann-2", session="s9")
    refusal = await team.register("ann", session="s2", status=409)
    assert refusal["code"] == "AGENT_NAME_TAKEN"
    assert (refusal["details"]["suggestion"], refusal["details"]["program"]) == ("ann-3", "editor")
    taken = await team.register("ann", session="s2", force=True)
    assert taken["agent"]["session"] == "s2"
    assert (await team.told("agent"))[-1][1]["reason"] == "another session"
    assert (await team.agent_step("ann", "heartbeat", session="s1", status=409))["code"] == "AGENT_NAME_TAKEN"
    await team.agent_step("ann", "heartbeat", session="s2")


async def test_a_name_is_made_for_a_session_and_found_again(team: Team) -> None:
    made = (await team.register(session="s1"))["agent"]["name"]
    assert (await team.register(session="s1", status=200))["agent"]["name"] == made
    other = (await team.register(session="s2"))["agent"]["name"]
    nameless = (await team.register())["agent"]["name"]
    assert len({made, other, nameless}) == 3


@pytest.mark.parametrize("name", ["", "two words", "-a", "a/b", "ä", "a" * 65])
async def test_a_name_is_a_word_that_fits_a_header_and_a_file(team: Team, name: str) -> None:
    await team.register(name, status=400)


async def test_a_request_in_its_name_is_a_sign_of_life(team: Team) -> None:
    await team.register("ann", session="s1")
    for _ in range(3):
        team.hub.clock.advance(GONE_AFTER - 1)
        await team.api.call("GET", "/api/v1/channels", headers={"X-Parley-Agent": "ann"})
        seen = (await team.api.get("/api/v1/agents/ann"))["agent"]
        assert (seen["state"], seen["last_seen_at"]) == ("active", _now(team))
        await team.sweep()
    team.hub.clock.advance(GONE_AFTER - 1)
    await team.agent_step("ann", "heartbeat")
    await team.sweep()
    assert [name for name, _ in await team.told("agent")] == ["agent.registered"]


async def test_signs_of_life_are_written_down_at_the_next_look(team: Team) -> None:
    await team.register("ann", session="s1")
    team.hub.clock.advance(100)
    await team.api.call("GET", "/api/v1/channels", headers={"X-Parley-Agent": "ann"})
    await team.api.call("GET", "/api/v1/channels", headers={"X-Parley-Agent": "a stranger"})
    assert _stored(team, "ann") == "2026-01-01T00:00:00.000Z"
    await team.sweep()
    assert _stored(team, "ann") == _now(team)
    assert len((await team.api.get("/api/v1/agents"))["agents"]) == 1


async def test_an_agent_without_a_sign_of_life_is_gone_and_gives_back_what_it_held(team: Team) -> None:
    await team.register("bob", session="s1")
    await team.register("eve", session="s2")
    task, other = await team.task("1"), await team.task("2")
    await team.claim(task["id"], "bob", ttl_seconds=86_400)
    await team.claim(other["id"], "eve", ttl_seconds=86_400)
    lease = (await team.lease("bob", "src/**", ttl_seconds=86_400))["lease"]
    ended = (await team.lease("bob", "docs", ttl_seconds=60))["lease"]
    team.hub.clock.advance(GONE_AFTER - 1)
    await team.agent_step("eve", "heartbeat")
    await team.sweep()
    before = len(await team.api.events())
    team.hub.clock.advance(1)
    await team.sweep()
    told = [(each["name"], each["data_json"]) for each in (await team.api.events())[before:]]
    assert [name for name, _ in told] == ["task.released", "lease.released", "agent.swept"]
    assert (told[0][1]["actor"], told[0][1]["reason"]) == (None, "the agent has gone")
    assert (told[2][1]["released_tasks"], told[2][1]["released_leases"]) == ([task["id"]], [lease["id"]])
    assert (await team.api.get("/api/v1/agents/bob"))["agent"]["state"] == "gone"
    assert [each["name"] for each in (await team.api.get("/api/v1/agents", state="active"))["agents"]] == ["eve"]
    assert (await team.get_task(task["id"]))["status"] == "open"
    assert (await team.get_task(other["id"]))["holder"] == "eve"
    assert (await team.api.get(f"/api/v1/leases/{ended['id']}"))["lease"]["status"] == "expired"
    assert (await team.step(task["id"], "complete", holder="bob", generation=1, status=409))["code"] == "TASK_NOT_HELD"
    assert team.hub.fold_problems() == []


async def test_who_was_thought_gone_and_does_something_is_here_again(team: Team) -> None:
    await team.register("bob", session="s1")
    task = await team.task()
    await _let_go(team)
    await team.claim(task["id"], "bob")
    assert (await team.told("agent"))[-1][1]["reason"] == "returned"
    await _let_go(team)
    await team.api.call("GET", "/api/v1/channels", headers={"X-Parley-Agent": "bob"})
    await team.sweep()
    assert (await team.api.get("/api/v1/agents/bob"))["agent"]["state"] == "active"
    await _let_go(team)
    await team.agent_step("bob", "heartbeat")
    assert (await team.api.get("/api/v1/agents/bob"))["agent"]["state"] == "active"
    await _let_go(team)
    assert (await team.register("bob", session="another"))["agent"]["session"] == "another"
    assert team.hub.fold_problems() == []


async def test_an_agent_that_leaves_gives_back_what_it_held(team: Team) -> None:
    await team.register("bob", session="s1")
    task = await team.task()
    await team.claim(task["id"], "bob")
    await team.lease("bob", "src/**")
    assert (await team.agent_step("bob", "leave", session="other", status=409))["code"] == "AGENT_NAME_TAKEN"
    left = await team.agent_step("bob", "leave", session="s1", reason="done for today")
    assert left["agent"]["state"] == "gone"
    assert (await team.agent_step("bob", "leave"))["event_id"] is None
    name, payload = (await team.told("agent"))[-1]
    assert (name, payload["reason"], payload["released_tasks"]) == ("agent.left", "done for today", [task["id"]])
    assert (await team.api.get("/api/v1/leases"))["leases"] == []
    await team.sweep()
    assert (await team.api.get("/api/v1/agents/bob"))["agent"]["state"] == "gone"
    assert team.hub.fold_problems() == []


async def test_a_takeover_from_an_agent_that_has_gone_needs_no_force(team: Team) -> None:
    await team.register("bob", session="s1")
    task = await team.task()
    await team.claim(task["id"], "bob", ttl_seconds=86_400)
    await _let_go(team)
    assert (await team.step(task["id"], "take_over", holder="eve"))["task"]["holder"] == "eve"


async def test_nobody_is_called_gone_for_the_time_in_which_the_hub_was_down(make_hub: MakeHub) -> None:
    hub = await make_hub()
    team = Team(hub, await hub.api.channel())
    await team.register("bob", session="s1")
    hub.clock.jump(10 * GONE_AFTER * 1000)
    await team.sweep()
    assert (await hub.api.get("/api/v1/agents/bob"))["agent"]["state"] == "active"
    await _let_go(team)
    assert (await hub.api.get("/api/v1/agents/bob"))["agent"]["state"] == "gone"


async def test_a_retry_with_the_same_key_has_one_effect(team: Team) -> None:
    headers = {"Idempotency-Key": "come"}
    first = await team.api.call("POST", "/api/v1/agents", {"session": "s1"}, status=201, headers=headers)
    again = await team.api.call("POST", "/api/v1/agents", {"session": "s1"}, status=200, headers=headers)
    assert (again["duplicate"], again["event_id"]) == (True, first["event_id"])
    path, body = f"/api/v1/agents/{first['agent']['name']}", {"op": "leave"}
    for expected in (None, True):
        answer = await team.api.call("PATCH", path, body, headers={"Idempotency-Key": "go"})
        assert answer.get("duplicate") == expected


async def test_agents_are_listed_in_pages_the_one_last_seen_first(team: Team) -> None:
    for name in ("ann", "bob", "cleo"):
        await team.register(name)
        team.hub.clock.advance(1)
    page = await team.api.get("/api/v1/agents?limit=2")
    assert [agent["name"] for agent in page["agents"]] == ["cleo", "bob"]
    rest = await team.api.get(f"/api/v1/agents?limit=2&cursor={page['cursor']}")
    assert ([agent["name"] for agent in rest["agents"]], rest["cursor"]) == (["ann"], None)


@pytest.mark.parametrize(
    ("question", "index"),
    [
        ("FROM agents WHERE state = 'active' ORDER BY last_seen_at DESC, name LIMIT 9", "idx_agents_active"),
        ("FROM leases WHERE status = 'active' AND expires_at > '2026'", "idx_leases_active"),
        ("FROM leases WHERE status = 'active' AND holder = 'ann'", "idx_leases_holder"),
        ("FROM tasks WHERE status = 'claimed' AND holder = 'ann'", "idx_tasks_holder"),
    ],
)
async def test_what_is_asked_all_the_time_does_not_look_at_what_has_ended(
    team: Team, question: str, index: str
) -> None:
    plan = team.hub.hub.store.read(lambda db: db.execute(f"EXPLAIN QUERY PLAN SELECT * {question}").fetchall())
    assert any(index in str(row) for row in plan), plan


async def test_who_is_not_registered_is_not_found(team: Team) -> None:
    await team.api.get("/api/v1/agents/nobody", status=404)
    await team.agent_step("nobody", "heartbeat", status=404)
    await team.agent_step("nobody", "leave", status=404)


async def _let_go(team: Team) -> None:
    """Time passes without a sign of life."""
    await team.sweep()
    team.hub.clock.advance(GONE_AFTER)
    await team.sweep()


def _now(team: Team) -> str:
    return iso(team.hub.clock.now_ms())


def _stored(team: Team, name: str) -> str:
    found = team.hub.hub.store.read(lambda connection: queries.get_agent(connection, name))
    assert found is not None
    return found.last_seen_at
