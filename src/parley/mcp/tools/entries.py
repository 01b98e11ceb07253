"""Messages and what holds them, as rows of a result, at the detail that was asked for."""

from collections.abc import Callable, Sequence
from typing import Any

from parley.core.limits import TOMBSTONE
from parley.mcp.context import AgentContext
from parley.mcp.results import RESERVED_BYTES, Entry, encoded
from parley.mcp.untrusted_text import BAR, block, cut, preview, quoted, visible
from parley.wire.entities import Agent, Channel, Lease, Message, Task, Topic

REST = "m."
"""Begins a cursor that goes on inside a message: ``m.msg_1.12000`` is that message from its 12,000th character on."""


def message_entry(context: AgentContext, message: Message, detail: str, from_char: int = 0) -> Entry:
    """A message. Its sender, its place and its time are facts of the hub; its content is what the sender wrote."""
    data: dict[str, Any] = {"id": message.id, "sender": message.sender}
    line = f"{message.id} from {quoted(message.sender)}{_you(context, message.sender)}"
    if detail == "ids":
        return Entry(data, line)
    data |= {"topic_id": message.topic_id, "at": message.created_at}
    line += f" in {message.topic_id} at {message.created_at}"
    if message.reply_to is not None:
        data["reply_to"] = message.reply_to
        line += f" replying to {message.reply_to}"
    if message.deleted_at is not None:
        data["deleted_at"] = message.deleted_at
        return Entry(data, f"{line} {TOMBSTONE}")
    if detail == "short":
        data["preview"] = preview(message.content_raw)
        return Entry(data, f"{line}\n{BAR}{visible(data['preview'])}")
    data |= {"channel_id": message.channel_id, "version": message.version}
    return _with_content(context, message, Entry(data, line), from_char)


def rest_of(cursor: str) -> tuple[str, int] | None:
    """The message and the character in a cursor that goes on inside a message; None for any other cursor."""
    message_id, dot, chars = cursor.removeprefix(REST).rpartition(".")
    if not cursor.startswith(REST) or not dot or not chars.isdecimal():
        return None
    return message_id, int(chars)


def channel_entry(channel: Channel) -> Entry:
    """A channel."""
    data = {"id": channel.id, "name": channel.name, "description": preview(channel.description or "")}
    about = f" {quoted(data['description'])}" if data["description"] else ""
    return Entry({name: value for name, value in data.items() if value}, f"{channel.id} {quoted(channel.name)}{about}")


def topic_entry(topic: Topic) -> Entry:
    """A topic."""
    data = {"id": topic.id, "title": topic.title, "updated_at": topic.updated_at}
    return Entry(data, f"{topic.id} {quoted(topic.title)} changed {topic.updated_at}")


def task_entry(context: AgentContext, task: Task, detail: str = "short") -> Entry:
    """A task, with the generation that its holder's calls carry."""
    data: dict[str, Any] = {"id": task.id, "status": task.status, "title": task.title}
    line = f"{task.id} {task.status} {quoted(task.title)}"
    if detail == "ids":
        return Entry(data, line)
    data |= {"topic_id": task.topic_id, "created_by": task.created_by}
    line += f" in {task.topic_id} by {quoted(task.created_by)}"
    if task.holder is not None:
        data |= {"holder": task.holder, "generation": task.generation}
        line += f" holder {quoted(task.holder)}{_you(context, task.holder)} generation={task.generation}"
    if task.lease_expires_at is not None:
        data["lease_expires_at"] = task.lease_expires_at
        line += f" until {task.lease_expires_at}"
    for name, words in (("description", task.description), ("result", task.result)):
        if words:
            data[name] = words[: cut(words, _fits(context, 4))] if detail == "full" else preview(words)
            line += f"\n{name}:\n{block(data[name])}"
    return Entry(data, line)


def lease_entry(context: AgentContext, lease: Lease) -> Entry:
    """A lease of paths."""
    data: dict[str, Any] = {
        "id": lease.id,
        "holder": lease.holder,
        "mode": lease.mode,
        "patterns": lease.patterns,
        "generation": lease.generation,
        "status": lease.status,
        "expires_at": lease.expires_at,
    }
    patterns = " ".join(map(quoted, lease.patterns))
    line = (
        f"{lease.id} {lease.status} {lease.mode} {patterns} holder {quoted(lease.holder)}{_you(context, lease.holder)}"
    )
    line += f" generation={lease.generation} until {lease.expires_at}"
    if lease.reason:
        data["reason"] = preview(lease.reason)
        line += f" because {quoted(data['reason'])}"
    return Entry(data, line)


def agent_entry(context: AgentContext, agent: Agent, tasks: Sequence[Task], leases: Sequence[Lease]) -> Entry:
    """An agent, and what it holds."""
    data: dict[str, Any] = {"name": agent.name, "state": agent.state, "last_seen_at": agent.last_seen_at}
    data |= {name: value for name, value in (("program", agent.program), ("model", agent.model)) if value}
    about = "".join(f" {name} {quoted(data[name])}" for name in ("program", "model") if name in data)
    line = f"{quoted(agent.name)}{_you(context, agent.name)} {agent.state}{about} seen {agent.last_seen_at}"
    if tasks:
        data["tasks"] = [{"id": task.id, "title": task.title} for task in tasks]
        line += "".join(f"\n  task {task.id} {quoted(task.title)}" for task in tasks)
    if leases:
        data["leases"] = [{"id": lease.id, "mode": lease.mode, "patterns": lease.patterns} for lease in leases]
        line += "".join(
            f"\n  lease {lease.id} {lease.mode} {' '.join(map(quoted, lease.patterns))}" for lease in leases
        )
    return Entry(data, line)


def cursor_before(messages: Sequence[Message], taken: int) -> str:
    """Where a list of messages, newest first, goes on after so many of them."""
    return f"b.{messages[taken - 1].id}"


def _you(context: AgentContext, name: str) -> str:
    return " (you)" if name == context.agent else ""


def _fits(context: AgentContext, share: int) -> Callable[[str], bool]:
    """Whether a text takes at most this share of a result."""
    room = (context.result_bytes_max - 2 * RESERVED_BYTES) // share
    return lambda text: encoded(text) + encoded(block(text)) <= room


def _with_content(context: AgentContext, message: Message, entry: Entry, from_char: int) -> Entry:
    content = message.content_raw[from_char:]
    # The rest of a result's room belongs to names and titles; a message alone must fit with the longest of them.
    room = context.result_bytes_max - 2 * RESERVED_BYTES - entry.bytes - encoded(message.id)

    def fits(text: str) -> bool:
        return encoded(text) + encoded(block(text)) <= room

    end = cut(content, fits)
    data = {**entry.data, "content": content[:end]}
    text = f"{entry.text}\n{block(content[:end])}"
    if from_char:
        data["from_char"] = from_char
    if end < len(content):
        data["rest"] = f"{REST}{message.id}.{from_char + end}"
        text += f"\n(cut; read the rest with cursor {data['rest']})"
    return Entry(data, text)
