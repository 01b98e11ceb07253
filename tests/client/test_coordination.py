"""Agents, tasks and leases through the SDK: both clients, the hub's answers and the file's."""

from typing import Any

import pytest

from parley.client import AsyncClient, Client, errors
from parley.client.identity import whoami
from tests.client.hubs import HubProcess, fresh_name


def test_a_task_through_the_blocking_client(shared_hub: HubProcess) -> None:
    with Client(shared_hub.root, agent="ann") as ann, Client(shared_hub.root, sender="bob") as bob:
        channel = ann.create_channel(fresh_name("work")).channel
        task = ann.create_task("do it", channel_id=channel.id, description="soon").task
        assert task.created_by == "ann"
        claimed = bob.claim_next_task(channel_id=channel.id).task
        assert claimed is not None
        assert (claimed.id, claimed.holder, claimed.generation) == (task.id, "bob", 1)
        with pytest.raises(errors.TaskHeld) as held:
            ann.claim_task(task.id)
        assert held.value.details["holder"] == "bob"
        assert bob.renew_task(task.id, 1, ttl_seconds=3600).event_id is None
        assert ann.take_over_task(task.id, force=True, reason="bob sleeps").task.generation == 2
        with pytest.raises(errors.TaskNotHeld):
            bob.complete_task(task.id, 1)
        assert ann.release_task(task.id, 2).task.status == "open"
        assert bob.claim_task(task.id).task.generation == 3
        assert bob.complete_task(task.id, 3, "done").task.result == "done"
        with pytest.raises(errors.TaskClosed):
            ann.cancel_task(task.id)
        other = ann.create_task("not this", channel_id=channel.id).task
        assert ann.cancel_task(other.id, reason="no need").task.status == "cancelled"
        assert bob.claim_next_task(channel_id=channel.id).task is None
        message = bob.send_message(task.id, "a word about it").message
        assert ann.tail_messages(task.id).messages == [message]


async def test_leases_through_the_awaiting_client(shared_hub: HubProcess) -> None:
    folder = fresh_name("work")
    async with AsyncClient(shared_hub.root, agent="ann") as ann, AsyncClient(shared_hub.root, agent="bob") as bob:
        lease = (await ann.acquire_lease([f"{folder}/**"], reason="moving")).lease
        with pytest.raises(errors.LeaseConflict) as conflict:
            await bob.acquire_lease([f"{folder}/a"])
        conflicts: Any = conflict.value.details["conflicts"]
        assert conflicts[0]["holder"] == "ann"
        assert (await ann.acquire_lease([f"{folder}/**"])).event_id is None
        assert (await ann.renew_lease(lease.id, lease.generation)).lease.id == lease.id
        hits = (await bob.check_paths([f"{folder}/a", "b"])).hits
        assert [(hit.wanted, hit.holder) for hit in hits] == [(f"{folder}/a", "ann")]
        assert (await ann.check_paths([f"{folder}/a"])).hits == []
        released = (await ann.release_lease(lease.id, lease.generation)).lease
        assert released.status == "released"
        assert (await bob.get_lease(lease.id)).lease == released
        with pytest.raises(errors.LeaseLost):
            await bob.renew_lease(lease.id, lease.generation)


def test_reads_from_the_file_and_from_the_hub_agree(shared_hub: HubProcess) -> None:
    server = shared_hub.server
    with Client(shared_hub.root, agent="ann") as near, Client(url=server.base_url, token=server.auth_token) as far:
        channel = near.create_channel(fresh_name("work")).channel
        for number in range(3):
            near.create_task(f"{number}", channel_id=channel.id)
        task = near.claim_next_task(channel_id=channel.id).task
        assert task is not None
        lease = near.acquire_lease([f"{channel.name}/**"]).lease
        for status in (None, "open", "claimed"):
            assert near.list_tasks(status=status, channel_id=channel.id) == far.list_tasks(
                status=status, channel_id=channel.id
            )
        page = far.list_tasks(channel_id=channel.id, limit=2)
        assert page == near.list_tasks(channel_id=channel.id, limit=2)
        rest = [each.list_tasks(channel_id=channel.id, limit=2, cursor=page.cursor) for each in (near, far)]
        assert rest[0] == rest[1]
        assert len(rest[0].tasks) == 1
        assert near.get_task(task.topic_id) == far.get_task(task.id)
        assert near.list_leases(holder="ann") == far.list_leases(holder="ann")
        assert near.get_lease(lease.id) == far.get_lease(lease.id)
        paths = [f"{channel.name}/a", "b"]
        assert near.check_paths(paths, "bob") == far.check_paths(paths, "bob")
        for client in (near, far):
            for read in (client.get_task, client.get_lease, client.get_agent):
                with pytest.raises(errors.NotFound):
                    read("nothing")


def test_reads_need_no_hub_and_signs_of_life_are_written_at_its_stop(hub: HubProcess) -> None:
    with Client(hub.root, agent="ann") as client:
        registered = client.register_agent("ann", session="s").agent
        for _ in range(3):
            last = client.heartbeat().agent
        hub.stop()
        (agent,) = client.list_agents().agents
        assert agent.last_seen_at >= last.last_seen_at >= registered.last_seen_at
        assert client.list_tasks().tasks == []
        assert client.list_leases().leases == []
        assert client.check_paths(["a"]).hits == []


def test_a_program_joins_under_its_name_and_is_seen(shared_hub: HubProcess) -> None:
    session = fresh_name("work")
    with Client(shared_hub.root) as client:
        assert client.workspace is not None
        agent = client.join("editor", model="m-1", session=session)
        assert agent.name == whoami(client.workspace, program="editor", session=session).name
        assert (agent.program, agent.model) == ("editor", "m-1")
        channel = client.create_channel(fresh_name("work")).channel
        assert client.create_task("mine", channel_id=channel.id).task.created_by == agent.name
        assert client.heartbeat().agent.name == agent.name
        assert client.get_agent(agent.name).agent.state == "active"
    with Client(shared_hub.root) as again:
        assert again.join("editor", session=session).name == agent.name
        assert again.leave(reason="done").agent.state == "gone"


async def test_a_made_up_name_gives_way_to_a_living_session_and_a_chosen_one_does_not(
    shared_hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, stranger = fresh_name("work"), fresh_name("work")
    async with AsyncClient(shared_hub.root) as client:
        assert client.workspace is not None
        wanted = whoami(client.workspace, program="editor", session=session).name
        await client.register_agent(wanted, session=stranger)
        agent = await client.join("editor", session=session)
        assert agent.name == f"{wanted}-2"
        assert whoami(client.workspace, program="editor", session=session).name == agent.name
        monkeypatch.setenv("PARLEY_AGENT", wanted)
        with pytest.raises(errors.AgentNameTaken) as taken:
            await client.join("editor", session=session)
        assert taken.value.details["suggestion"]


def test_who_falls_silent_is_swept_and_its_work_is_there_for_others(hub: HubProcess) -> None:
    with Client(hub.root) as ann, Client(hub.root, sender="bob") as bob:
        ann.join("editor", session="s")
        channel = ann.create_channel("work").channel
        task = ann.create_task("do it", channel_id=channel.id).task
        claim = ann.claim_task(task.id, ttl_seconds=3600).task
        lease = ann.acquire_lease(["src/**"], ttl_seconds=3600).lease
        hub.stop()  # so that no silence is called one before she holds both, however slow the machine is
        (hub.root / "parley.toml").write_text("[agents]\ngone_after_minutes = 0.01\nseen_flush_seconds = 0.05\n")
        hub.start()
        with bob.events(after=0) as feed:
            swept = next(event for event in feed if event.name == "agent.swept")
        assert swept.data["released_tasks"] == [task.id]
        assert swept.data["released_leases"] == [lease.id]
        assert bob.claim_task(task.id).task.generation == claim.generation + 1
        bob.acquire_lease(["src/a.py"])
        with pytest.raises(errors.TaskNotHeld):
            ann.complete_task(task.id, claim.generation)
