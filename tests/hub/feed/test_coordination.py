"""Who hears of tasks, leases and agents: a task's channel and topic, and of the rest those who want everything."""

from tests.hub.conftest import MakeHub
from tests.hub.coordination import Team
from tests.hub.feed.clients import feed


async def test_subscribers_get_the_events_of_their_tasks_and_the_others_get_all(make_server: MakeHub) -> None:
    server = await make_server()
    team = Team(server, await server.api.channel())
    task, other = await team.task("one"), await team.task("two")
    start = (await server.api.events())[-1]["event_id"]
    async with (
        feed(server) as by_task,
        feed(server) as by_channel,
        feed(server) as everything,
    ):
        await by_task.hello(start, {"topics": [task["id"]]})
        await by_channel.hello(start, {"channels": [team.channel_id]})
        await everything.hello(start)
        await team.register("bob", session="s1")
        await team.claim(task["id"], "bob")
        await team.claim(other["id"], "bob")
        await team.lease("bob", "src/**")
        await team.agent_step("bob", "leave")
        last = (await server.api.events())[-1]["event_id"]
        heard = [event["name"] for event in await everything.events(last)]
        assert heard == [
            "agent.registered",
            "task.claimed",
            "task.claimed",
            "lease.acquired",
            "task.released",
            "task.released",
            "lease.released",
            "agent.left",
        ]
        mine = [await by_task.event() for _ in range(2)]
        assert [(event["name"], event["entity"]["id"]) for event in mine] == [
            ("task.claimed", task["id"]),
            ("task.released", task["id"]),
        ]
        assert mine[0]["scope"]["topic_id"] == task["topic_id"]
        assert mine[0]["data"]["task"]["holder"] == "bob"
        in_channel = [await by_channel.event() for _ in range(4)]
        assert [event["name"] for event in in_channel] == ["task.claimed"] * 2 + ["task.released"] * 2
