"""Every tool of both profiles, called so that each has something to do.

``story`` tells how the tools of the default profile work together. ``arrange`` gives each tool of the full profile
something of its own to work on, so that all of them can be called in any order or at once, repeated and interrupted;
``EFFECTS`` is all that may have happened afterwards.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult

from parley.client import Client
from parley.mcp.profiles import tools_of
from parley.mcp.toolbox import Tool
from parley.sqlite import close_quietly, open_reader
from parley.workspace import discovery, queries
from tests.campaign.judge import judge
from tests.mcp.agents import Agent, text_of

NAME = "driver"
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in tools_of("full")}
EFFECTS = Counter(
    {
        "message.created": 2,
        "message.edited": 1,
        "message.deleted": 1,
        "message.moved_topic": 1,
        "message.enriched": 1,
        "topic.attachment_added": 1,
        "channel.created": 1,
        "topic.created": 3,
        "topic.renamed": 1,
        "task.created": 2,
        "task.claimed": 3,
        "task.completed": 2,
        "task.released": 1,
        "task.cancelled": 1,
        "task.taken_over": 1,
        "lease.acquired": 2,
        "lease.released": 2,
        "agent.registered": 1,
        "agent.left": 1,
    }
)
"""The events of calling every tool once, besides those about the agent itself."""

Calls = dict[str, dict[str, Any]]


async def story(call: Agent) -> None:
    """The tools of the default profile, as an agent uses them."""
    posted = await call.call("post", channel="general", title="Hello", content="Needle in the hay")
    assert posted["idempotency_key"]
    page = await call.call("read", topic=posted["topic_id"])
    assert [each["content"] for each in page["messages"]] == ["Needle in the hay"]
    assert [each["name"] for each in (await call.call("read"))["channels"]] == ["general"]
    assert [each["title"] for each in (await call.call("read", channel="general"))["topics"]] == ["Hello"]
    assert len((await call.call("search", query="needle"))["messages"]) == 1
    start = (await call.call("inbox"))["cursor"]
    assert (await call.call("wait", cursor=start, seconds=0.1))["news"] == []
    added = await call.call("add_task", channel="general", title="Do it", description="Carefully")
    (task,) = added["tasks"]
    assert [each["id"] for each in (await call.call("tasks"))["tasks"]] == [task["id"]]
    (claimed,) = (await call.call("claim_task"))["tasks"]
    assert (claimed["id"], claimed["generation"], claimed["status"]) == (task["id"], 1, "claimed")
    (renewed,) = (await call.call("claim_task", task=task["id"], ttl_seconds=7200))["tasks"]
    assert renewed["generation"] == 1
    assert renewed["lease_expires_at"] > claimed["lease_expires_at"]
    (lease,) = (await call.call("lease", paths=["src/**"], reason="rewriting"))["leases"]
    assert lease["status"] == "active"
    (me,) = (await call.call("who"))["agents"]
    assert [each["id"] for each in me["tasks"]] == [task["id"]]
    assert [each["id"] for each in me["leases"]] == [lease["id"]]
    (done,) = (await call.call("complete_task", task=task["id"], result="Done"))["tasks"]
    assert (done["status"], done["result"]) == ("completed", "Done")
    (released,) = (await call.call("release"))["leases"]
    assert (released["id"], released["status"]) == (lease["id"], "released")


def arrange(root: Path) -> tuple[Calls, int]:
    """The arguments of every tool, and the newest event before any of them is called."""
    with Client(root, sender=NAME) as client:
        calls = _about_messages(client) | _about_tasks(client) | _about_leases(client) | _about_agents(client)
        calls |= {f"hub_{name}": {} for name in ("health", "ping", "status", "list_plugins", "page_link")}
        calls |= {"hub_re_enrich": {"since_event_id": 0}}
        calls |= {"hub_rotate_token": {}}  # the last one, since it writes anew where the hub is found
        assert set(calls) == set(TOOLS), "a tool that no test calls"
        for name, key in keys():
            calls[name]["idempotency_key"] = key
        return calls, client.read_events(tail=1).replay_until


def keys() -> Iterator[tuple[str, str]]:
    """A key for every tool that takes one."""
    for name, tool in TOOLS.items():
        if "idempotency_key" in tool.schema["properties"]:
            yield name, f"key-of-{name}"


async def call_all(agent: Agent, calls: Calls) -> dict[str, CallToolResult]:
    """What each tool answers when all are called at once."""
    answers = await asyncio.gather(*(agent.raw(name, **arguments) for name, arguments in calls.items()))
    return dict(zip(calls, answers, strict=True))


def refusals(answers: Mapping[str, CallToolResult]) -> dict[str, str]:
    """The codes of the calls that were refused; every refusal says in words what it is and what to do."""
    found: dict[str, str] = {}
    for name, answer in answers.items():
        text = text_of(answer)
        assert "Traceback" not in text, text
        if answer.is_error:
            assert answer.structured_content is not None
            found[name] = answer.structured_content["code"]
            assert found[name] != "INTERNAL_ERROR", text
            assert text.startswith(found[name])
            assert answer.structured_content["hint"], name
    return found


def effects(root: Path, after: int) -> "Counter[str]":
    """What happened since, besides to the agent itself; the log and the tables must agree."""
    database = open_reader(discovery.at(root).db)
    try:
        problems = judge(database, [])
        log = [event for event in queries.logged_events(database) if event.event_id > after]
    finally:
        close_quietly(database)
    assert problems == [], problems
    return Counter(event.name for event in log if event.data.get("agent", {}).get("name") != NAME)


def _about_messages(client: Client) -> Calls:
    channel_id = client.create_channel("talk").channel.id
    home, other, renamed = (client.create_topic(channel_id, title).topic.id for title in ("Home", "Other", "Old"))
    read, edited, deleted, moved, enriched = (
        client.send_message(home, f"{number} needle").message.id for number in range(5)
    )
    finding = {"kind": "link", "span": {"start": 0, "end": 1}, "data": {"url": "https://example.org"}}
    return {
        "post": {"topic": home, "content": "Hello"},
        "read": {"topic": home},
        "search": {"query": "needle"},
        "inbox": {},
        "wait": {"seconds": 0.1},
        "hub_create_channel": {"name": "new"},
        "hub_create_topic": {"channel_id": channel_id, "title": "New"},
        "hub_rename_topic": {"topic_id": renamed, "title": "Renamed"},
        "hub_send_message": {"topic_id": home, "content": "Hi"},
        "hub_edit_message": {"message_id": edited, "content": "Edited", "expected_version": 1},
        "hub_delete_message": {"message_id": deleted},
        "hub_retopic_message": {"message_id": moved, "to_topic_id": other, "mode": "one"},
        "hub_move_preview": {"message_id": read, "to_topic_id": other},
        "hub_add_attachment": {"topic_id": home, "kind": "note", "value": {"text": "hi"}},
        "hub_store_findings": {
            "message_id": enriched,
            "plugin_name": "links",
            "version": 1,
            "enrichments": [finding],
        },
        "hub_get_message": {"message_id": read},
        "hub_message_history": {"message_id": read},
        "hub_list_enrichments": {"message_ids": [read]},
        "hub_list_attachments": {"topic_id": home},
        "hub_tail_messages": {"topic_id": home},
        "hub_page_messages": {"channel_id": channel_id, "limit": 1},
        "hub_get_topic": {"topic_id": home},
        "hub_list_topics": {"channel_id": channel_id},
        "hub_list_channels": {},
        "hub_search": {"query": "needle"},
        "hub_read_events": {"after": 0},
    }


def _about_tasks(client: Client) -> Calls:
    channel_id = client.create_channel("work").channel.id

    numbers = itertools.count()

    def task(holder: str | None = None) -> dict[str, Any]:
        made = client.create_task(f"{next(numbers)}. Do it", channel_id=channel_id).task
        if holder is None:
            return {"task_id": made.id}
        return {"task_id": made.id, "generation": client.claim_task(made.id, holder).task.generation}

    queues = [client.create_channel(name).channel.id for name in ("queue one", "queue two")]
    for queue in queues:
        client.create_task(f"{queue} first", channel_id=queue)
    done = task(NAME)
    return {
        "tasks": {},
        "add_task": {"channel": "work", "title": "A task by the tool"},
        "claim_task": {"channel": queues[0]},
        "complete_task": {"task": done["task_id"], "result": "Done"},
        "hub_create_task": {"title": "Task by the method", "channel_id": channel_id},
        "hub_claim_task": task(),
        "hub_claim_next_task": {"channel_id": queues[1]},
        "hub_renew_task": task(NAME),
        "hub_release_task": task(NAME) | {"reason": "later"},
        "hub_complete_task": task(NAME) | {"result": "Finished"},
        "hub_cancel_task": task() | {"reason": "not needed"},
        "hub_take_over_task": {"task_id": task("somebody")["task_id"], "force": True, "reason": "urgent"},
        "hub_get_task": task(),
        "hub_list_tasks": {"status": "open"},
    }


def _about_leases(client: Client) -> Calls:
    given_back, renewed, released, looked_at = (client.acquire_lease([f"held/{number}"]).lease for number in range(4))
    return {
        "lease": {"paths": ["by/tool/**"]},
        "release": {"lease": given_back.id},
        "hub_acquire_lease": {"patterns": ["by/method/*"]},
        "hub_renew_lease": {"lease_id": renewed.id, "generation": renewed.generation},
        "hub_release_lease": {"lease_id": released.id, "generation": released.generation},
        "hub_get_lease": {"lease_id": looked_at.id},
        "hub_list_leases": {},
        "hub_check_paths": {"paths": ["held/3"]},
    }


def _about_agents(client: Client) -> Calls:
    for name in ("listener", "leaver"):
        client.register_agent(name)
    return {
        "who": {},
        "hub_register_agent": {"name": "newcomer", "program": "tests"},
        "hub_heartbeat": {"name": "listener"},
        "hub_leave": {"name": "leaver"},
        "hub_list_agents": {},
        "hub_get_agent": {"name": "listener"},
    }
