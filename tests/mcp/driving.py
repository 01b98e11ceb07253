"""Every tool of both profiles, called in an order in which each has something to do."""

from typing import Any

from parley.mcp.profiles import tools_of
from tests.mcp.agents import Agent


async def drive(agent: Agent, profile: str) -> set[str]:
    """Calls every tool of the profile at least once, each with success, and returns the names of those it called."""
    called = _Called(agent)
    await _default(called)
    if profile == "full":
        await _sdk(called)
    listed = {tool.name for tool in (await agent.client.list_tools()).tools}
    assert listed == {tool.name for tool in tools_of(profile)}
    assert listed - called.names == set(), "a tool that no test calls"
    return called.names


class _Called:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.names: set[str] = set()

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        self.names.add(tool)
        return await self._agent.call(tool, **arguments)


async def _default(call: _Called) -> None:
    posted = await call("post", channel="general", title="Hello", content="Needle in the hay")
    assert posted["idempotency_key"]
    page = await call("read", topic=posted["topic_id"])
    assert [each["content"] for each in page["messages"]] == ["Needle in the hay"]
    assert [each["name"] for each in (await call("read"))["channels"]] == ["general"]
    assert [each["title"] for each in (await call("read", channel="general"))["topics"]] == ["Hello"]
    assert len((await call("search", query="needle"))["messages"]) == 1
    start = (await call("inbox"))["cursor"]
    assert (await call("wait", cursor=start, seconds=0.1))["news"] == []
    added = await call("add_task", channel="general", title="Do it", description="Carefully")
    (task,) = added["tasks"]
    assert [each["id"] for each in (await call("tasks"))["tasks"]] == [task["id"]]
    (claimed,) = (await call("claim_task"))["tasks"]
    assert (claimed["id"], claimed["generation"], claimed["status"]) == (task["id"], 1, "claimed")
    (renewed,) = (await call("claim_task", task=task["id"], ttl_seconds=7200))["tasks"]
    assert renewed["generation"] == 1
    assert renewed["lease_expires_at"] > claimed["lease_expires_at"]
    (lease,) = (await call("lease", paths=["src/**"], reason="rewriting"))["leases"]
    assert lease["status"] == "active"
    (me,) = (await call("who"))["agents"]
    assert [each["id"] for each in me["tasks"]] == [task["id"]]
    assert [each["id"] for each in me["leases"]] == [lease["id"]]
    (done,) = (await call("complete_task", task=task["id"], result="Done"))["tasks"]
    assert (done["status"], done["result"]) == ("completed", "Done")
    (released,) = (await call("release"))["leases"]
    assert (released["id"], released["status"]) == (lease["id"], "released")


async def _sdk(call: _Called) -> None:
    await _sdk_messages(call)
    await _sdk_work(call)
    for name in ("health", "ping", "status", "list_plugins", "rotate_token", "page_link"):
        await call(f"hub_{name}")


async def _sdk_messages(call: _Called) -> None:
    channel = (await call("hub_create_channel", name="sdk"))["result"]["channel"]
    topic = (await call("hub_create_topic", channel_id=channel["id"], title="One"))["result"]["topic"]
    other = (await call("hub_create_topic", channel_id=channel["id"], title="Two"))["result"]["topic"]
    sent = await call("hub_send_message", topic_id=topic["id"], content="See https://example.com")
    message_id, event_id = sent["result"]["message"]["id"], sent["result"]["event_id"]
    assert sent["idempotency_key"]
    await call("hub_edit_message", message_id=message_id, content="See below", expected_version=1)
    await call("hub_get_message", message_id=message_id)
    await call("hub_message_history", message_id=message_id)
    await call("hub_list_enrichments", message_ids=[message_id])
    await call("hub_move_preview", message_id=message_id, to_topic_id=other["id"])
    await call("hub_retopic_message", message_id=message_id, to_topic_id=other["id"], mode="one")
    await call("hub_add_attachment", topic_id=other["id"], kind="note", value={"text": "hi"})
    await call("hub_list_attachments", topic_id=other["id"])
    await call("hub_tail_messages", topic_id=other["id"])
    await call("hub_page_messages", channel_id=channel["id"], limit=1)
    await call("hub_delete_message", message_id=message_id)
    await call("hub_rename_topic", topic_id=topic["id"], title="Uno")
    await call("hub_get_topic", topic_id=topic["id"])
    await call("hub_list_topics", channel_id=channel["id"])
    await call("hub_list_channels")
    await call("hub_search", query="needle")
    await call("hub_read_events", after=event_id)
    await call("hub_re_enrich", since_event_id=event_id)
    again = (await call("hub_send_message", topic_id=topic["id"], content="Look"))["result"]["message"]
    await call("hub_store_findings", message_id=again["id"], plugin_name="links", version=1, enrichments=[])


async def _sdk_work(call: _Called) -> None:
    channel = (await call("hub_create_channel", name="work"))["result"]["channel"]
    tasks = [
        (await call("hub_create_task", title=f"Task {number}", channel_id=channel["id"]))["result"]["task"]["id"]
        for number in range(3)
    ]
    claimed = (await call("hub_claim_next_task", channel_id=channel["id"]))["result"]["task"]
    await call("hub_renew_task", task_id=claimed["id"], generation=claimed["generation"])
    await call("hub_release_task", task_id=claimed["id"], generation=claimed["generation"], reason="later")
    again = (await call("hub_claim_task", task_id=tasks[1]))["result"]["task"]
    await call("hub_complete_task", task_id=again["id"], generation=again["generation"], result="done")
    taken = (await call("hub_take_over_task", task_id=tasks[2], force=True, reason="urgent"))["result"]["task"]
    await call("hub_get_task", task_id=taken["id"])
    await call("hub_cancel_task", task_id=taken["id"], reason="not needed")
    await call("hub_list_tasks", status="cancelled")
    lease = (await call("hub_acquire_lease", patterns=["docs/*"]))["result"]["lease"]
    await call("hub_renew_lease", lease_id=lease["id"], generation=lease["generation"])
    await call("hub_get_lease", lease_id=lease["id"])
    await call("hub_list_leases")
    await call("hub_check_paths", paths=["docs/mcp.md"])
    await call("hub_release_lease", lease_id=lease["id"], generation=lease["generation"])
    await call("hub_register_agent", program="tests")
    await call("hub_heartbeat")
    agents = (await call("hub_list_agents"))["result"]["agents"]
    await call("hub_get_agent", name=agents[0]["name"])
    await call("hub_leave")
