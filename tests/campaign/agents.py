"""Agents that talk to a real hub until it goes away, and remember exactly what it acknowledged.

Each request carries an idempotency key. One that was never answered stays in ``unanswered``: it may or may not have
happened, and its retry must make it have happened once.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.load.http import HttpPeer, json_body, status
from bench.load.hub import Hub
from tests.campaign.judge import Ack

DEADLINE_SECONDS = 60.0
UNTAGGED = frozenset({"message.deleted", "task.claimed", "lease.released"})
"""What these write has no place for the tag of the operation."""
WORK_SHARE = 0.3
"""Requests that are about tasks and leases."""
MOVE_MODES = ("one", "one", "one", "later")
"""A move of all later messages writes an event for each; with more of them the log would grow too fast to judge."""


@dataclass
class Request:
    """A write on its way."""

    method: str
    path: str
    body: dict[str, Any]
    key: str
    name: str
    event_id: int | None = None
    """The event that the hub named when it acknowledged the write first."""

    def bytes(self, hub: Hub) -> bytes:
        return hub.request(self.method, self.path, self.body, idempotency_key=self.key)


@dataclass
class Ledger:
    """What the agents of one workspace know."""

    topics: list[str] = field(default_factory=list)
    channel_id: str | None = None
    """Where tasks are made; without it the agents only talk."""
    acks: list[Ack] = field(default_factory=list)
    acknowledged: dict[str, Request] = field(default_factory=dict)
    unanswered: dict[str, Request] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    requests: int = 0
    waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = field(default_factory=list)

    def answered(self, request: Request, reply: bytes) -> Any:
        """Takes down an answer; the JSON of a success, None for a refusal."""
        try:
            return self._take_down(request, reply)
        finally:
            for reached, waiting in self.waiting:
                if reached() and not waiting.done():
                    waiting.set_result(None)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Returns after the answer that makes it true. Raises ``TimeoutError`` if none does."""
        entry = (reached, asyncio.get_running_loop().create_future())
        self.waiting.append(entry)
        try:
            await asyncio.wait_for(entry[1], DEADLINE_SECONDS)
        finally:
            self.waiting.remove(entry)

    def _take_down(self, request: Request, reply: bytes) -> Any:
        self.unanswered.pop(request.key, None)
        code, body = status(reply), json_body(reply)
        if code >= 300:
            self.refused[code] = self.refused.get(code, 0) + 1
            if body.get("code") == "LEASE_CONFLICT":
                return None  # somebody else has the path; that is what leases are for
            if code != 503 or body.get("code") not in ("SERVICE_UNAVAILABLE", "SHUTTING_DOWN"):
                self.problems.append(f"{request.name} was refused with {code}: {body}")
            return None
        if nothing_to_do(body):
            return body
        self.acknowledged[request.key] = request
        if request.name == "message.moved_topic":
            self.acks += [Ack(event_id, request.name, "") for event_id in body["event_ids"]]
        elif body["event_id"] is not None:
            if request.event_id not in (None, body["event_id"]):
                self.problems.append(f"{request.key} was event {request.event_id} and is now {body['event_id']}")
            request.event_id = body["event_id"]
            entity = next(body[kind] for kind in ("message", "attachment", "task", "lease") if kind in body)
            tag = None if request.name in UNTAGGED else request.key
            self.acks.append(Ack(body["event_id"], request.name, entity["id"], tag))
        return body


class Agent:
    """One agent on one connection, which works on the messages that it posted itself."""

    def __init__(self, hub: Hub, ledger: Ledger, rng: random.Random, name: str) -> None:
        self.hub = hub
        self.ledger = ledger
        self.rng = rng
        self.name = name
        self.mine: list[str] = []
        self.claims: list[dict[str, Any]] = []
        self.leases: list[dict[str, Any]] = []

    async def talk(self, peer: HttpPeer) -> None:
        """Writes without a pause until the connection ends."""
        while True:
            request = self._next()
            self.ledger.unanswered[request.key] = request
            try:
                reply = await peer.call(request.bytes(self.hub))
            except ConnectionError:
                return
            body = self.ledger.answered(request, reply)
            if body is None or nothing_to_do(body):
                continue
            if request.name == "message.created":
                self.mine.append(body["message"]["id"])
            elif request.name == "task.claimed":
                self.claims.append(body["task"])
            elif request.name == "lease.acquired":
                self.leases.append(body["lease"])

    def _next(self) -> Request:
        self.ledger.requests += 1
        key = f"{self.name}-{self.ledger.requests}"
        if self.ledger.channel_id is not None and self.rng.random() < WORK_SHARE:
            return self._work(key, self.ledger.channel_id)
        kind = self.rng.choices(("post", "edit", "delete", "move", "attach"), (60, 15, 5, 10, 10))[0]
        topic_id = self.rng.choice(self.ledger.topics)
        if kind == "attach":
            body = {"kind": "note", "value_json": {"tag": key}}
            return Request("POST", f"/api/v1/topics/{topic_id}/attachments", body, key, "topic.attachment_added")
        if kind == "post" or not self.mine:
            link = f" https://example.org/{key}" if self.rng.random() < 0.1 else ""
            text = f"{key} {'y' * self.rng.randrange(400)}{link}"
            body = {"topic_id": topic_id, "sender": self.name, "content_raw": text}
            return Request("POST", "/api/v1/messages", body, key, "message.created")
        message_id = self.rng.choice(self.mine)
        path = f"/api/v1/messages/{message_id}"
        if kind == "edit":
            return Request("PATCH", path, {"op": "edit", "content_raw": f"{key} edited"}, key, "message.edited")
        if kind == "move":
            body = {"op": "move_topic", "to_topic_id": topic_id, "mode": self.rng.choice(MOVE_MODES)}
            return Request("PATCH", path, body, key, "message.moved_topic")
        self.mine.remove(message_id)
        return Request("PATCH", path, {"op": "delete", "actor": self.name}, key, "message.deleted")

    def _work(self, key: str, channel_id: str) -> Request:
        """Something about tasks and leases: make one, take one, finish one."""
        kind = self.rng.choice(("task", "claim", "complete", "lease", "lease", "release"))
        if kind == "complete" and self.claims:
            task = self.claims.pop()
            body = {"op": "complete", "holder": self.name, "generation": task["generation"], "result": key}
            return Request("PATCH", f"/api/v1/tasks/{task['id']}", body, key, "task.completed")
        if kind == "release" and self.leases:
            lease = self.leases.pop()
            body = {"op": "release", "holder": self.name, "generation": lease["generation"]}
            return Request("PATCH", f"/api/v1/leases/{lease['id']}", body, key, "lease.released")
        if kind == "claim":
            return Request("POST", "/api/v1/tasks/claim_next", {"holder": self.name}, key, "task.claimed")
        if kind in ("lease", "release"):
            place = f"{key}.py" if self.rng.random() < 0.7 else f"shared-{self.rng.randrange(20)}/**"
            body = {"holder": self.name, "patterns": [place], "reason": key}
            return Request("POST", "/api/v1/leases", body, key, "lease.acquired")
        body = {"title": key, "created_by": self.name, "channel_id": channel_id}
        return Request("POST", "/api/v1/tasks", body, key, "task.created")


def nothing_to_do(body: dict[str, Any]) -> bool:
    """Whether the hub had no task to give, or renewed a lease: nothing happened that could be repeated or lost."""
    return body.get("event_id", 0) is None and ("task" in body or "lease" in body)


async def talking(hub: Hub, ledger: Ledger, rng: random.Random, agents: int, label: str) -> "asyncio.Future[Any]":
    """Lets that many agents loose; the future ends when all their connections have."""
    peers = await hub.connect(agents)
    tasks = [
        Agent(hub, ledger, random.Random(rng.random()), f"{label}-{number}").talk(peer)
        for number, peer in enumerate(peers)
    ]
    return asyncio.gather(*tasks)


async def retry(hub: Hub, ledger: Ledger, request: Request, *, known: bool) -> None:
    """Sends a request again: with ``known`` the hub must recognise it; else once more to see that it then does."""
    (peer,) = await hub.connect(1)
    try:
        first = await peer.call(request.bytes(hub))
        again = first if known else await peer.call(request.bytes(hub))
    finally:
        peer.close()
    if not known and json_body(first).get("code") == "LEASE_CONFLICT":
        ledger.answered(request, first)  # it was never taken, and somebody else has the path
    elif status(first) >= 300:
        ledger.problems.append(f"the retry of {request.key} was refused with {status(first)}: {json_body(first)}")
    elif not json_body(again).get("duplicate") and not nothing_to_do(json_body(again)):
        ledger.problems.append(f"the retry of {request.key} was not recognised")
    else:
        ledger.answered(request, first)
