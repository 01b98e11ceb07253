"""What the tools cost a conversation: the size of their definitions and of typical results, and a bound in tokens.

Each model counts tokens its own way, and their vocabularies are not ours to carry. So tokens are bounded by a rule that
anybody can check: one token for every three bytes of the JSON that is sent. Common vocabularies need fewer for such
text, about one for four bytes; the bound errs on the side of too many.

    python -m scripts.mcp_tokens
"""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from parley.mcp.context import AgentContext
from parley.mcp.profiles import PROFILES, tools_of
from parley.mcp.results import Entry, Result, done, listing
from parley.mcp.toolbox import Tool
from parley.mcp.tools.entries import agent_entry, lease_entry, message_entry, task_entry
from parley.wire.entities import Agent, Lease, Message, Task

BYTES_PER_TOKEN = 3
TIME = "2026-11-17T09:45:43.979Z"
CONTENT = "The build is green again; the flaky test waits for the event now. " * 3
BYTES_MAX = 24_000


def definition(tool: Tool) -> bytes:
    """The tool as it is sent to a model."""
    shown = {"name": tool.name, "description": tool.about, "inputSchema": tool.schema}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def tokens(data: bytes) -> int:
    """At most so many tokens."""
    return -(-len(data) // BYTES_PER_TOKEN)


def cost(profile: str) -> tuple[int, int, int]:
    """How many tools a profile has, their bytes, and their tokens at most."""
    sizes = [definition(tool) for tool in tools_of(profile)]
    return len(sizes), sum(map(len, sizes)), sum(map(tokens, sizes))


def results() -> Iterator[tuple[str, Result]]:
    """Results as agents get them day by day: ten messages of 200 bytes, one task, one lease, five agents."""
    context = AgentContext(cast(Any, SimpleNamespace(agent="reviewer")), BYTES_MAX, 60)
    posted = {"message_id": _id("msg"), "topic_id": _id("topic"), "event_id": 1234, "duplicate": False}
    yield "`post`", done({**posted, "idempotency_key": "facd5d42-c7c7-4690-b621-7f50e46e14f3"})
    for name, detail in (("`inbox`, ten new, `ids`", "ids"), ("`inbox`, ten new, `short`", "short")):
        yield name, _rows("news", [message_entry(context, _message(), detail)] * 10)
    yield "`inbox`, nothing new", _rows("news", [])
    yield "`read`, ten messages, `full`", _rows("messages", [message_entry(context, _message(), "full")] * 10)
    yield "`claim_task`", _rows("tasks", [task_entry(context, _task())])
    yield "`lease`", _rows("leases", [lease_entry(context, _lease())])
    yield "`who`, five agents at work", _rows("agents", [agent_entry(context, _agent(), [_task()], [_lease()])] * 5)


def _rows(key: str, entries: list[Entry]) -> Result:
    end = {"has_more": False, "cursor": 1234}
    return listing(key, entries, head=Entry({}, "10 new"), bytes_max=BYTES_MAX, ending=lambda taken: end)


def _id(kind: str) -> str:
    return f"{kind}_mwkibmln00000000"


def _message() -> Message:
    return Message(_id("msg"), _id("topic"), _id("ch"), "builder", CONTENT, 1, TIME)


def _task() -> Task:
    title, holder = "Make the build green", "brisk-otter"
    return Task(
        _id("task"), _id("topic"), _id("ch"), title, None, "claimed", "builder", holder, 1, TIME, TIME, TIME, TIME
    )


def _lease() -> Lease:
    return Lease(_id("lease"), "brisk-otter", ["src/build/**"], "exclusive", "fixing", 7, TIME, TIME, None, "active")


def _agent() -> Agent:
    return Agent("brisk-otter", "claude-code", "opus", "session", "active", TIME, TIME)


def main() -> None:
    for profile in PROFILES:
        count, size, most = cost(profile)
        print(f"{profile}: {count} tools, {size:,} bytes, at most {most:,} tokens")
        for tool in tools_of(profile):
            print(f"  {tool.name:24} {len(definition(tool)):6,} bytes {tokens(definition(tool)):5,} tokens")
    for name, result in results():
        print(f"  {name:30} {len(result.text.encode()):6,} bytes {tokens(result.text.encode()):5,} tokens as text")


if __name__ == "__main__":
    main()
