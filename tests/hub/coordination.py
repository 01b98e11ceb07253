"""Short ways to say what agents do with tasks and leases, over HTTP."""

from typing import Any

from tests.hub.hubs import OpenHub


class Team:
    """A hub with one channel, called by whoever a step names."""

    def __init__(self, hub: OpenHub, channel_id: str) -> None:
        self.hub = hub
        self.api = hub.api
        self.channel_id = channel_id

    async def task(self, title: str = "do it", **fields: Any) -> dict[str, Any]:
        """Creates a task; the task."""
        body = {"title": title, "created_by": "ann", "channel_id": self.channel_id, **fields}
        return (await self.api.call("POST", "/api/v1/tasks", body, status=201))["task"]

    async def step(self, task_id: str, op: str, *, status: int = 200, key: str | None = None, **fields: Any) -> Any:
        """``claim``, ``renew``, ``release``, ``complete``, ``cancel`` or ``take_over``; the whole answer."""
        return await self._patch(f"/api/v1/tasks/{task_id}", {"op": op, **fields}, status, key)

    async def claim(self, task_id: str, holder: str, **fields: Any) -> dict[str, Any]:
        return (await self.step(task_id, "claim", holder=holder, **fields))["task"]

    async def get_task(self, task_id: str) -> dict[str, Any]:
        return (await self.api.get(f"/api/v1/tasks/{task_id}"))["task"]

    async def lease(self, holder: str, *patterns: str, status: int = 201, key: str | None = None, **fields: Any) -> Any:
        """Reserves patterns; the whole answer."""
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"holder": holder, "patterns": patterns, **fields}
        return await self.api.call("POST", "/api/v1/leases", body, status=status, headers=headers)

    async def lease_step(
        self, lease_id: str, op: str, *, status: int = 200, key: str | None = None, **fields: Any
    ) -> Any:
        """``renew`` or ``release``; the whole answer."""
        return await self._patch(f"/api/v1/leases/{lease_id}", {"op": op, **fields}, status, key)

    async def register(self, name: str | None = None, *, status: int = 201, **fields: Any) -> Any:
        """Registers an agent; the whole answer."""
        body = {"name": name, **fields} if name is not None else fields
        return await self.api.call("POST", "/api/v1/agents", body, status=status)

    async def agent_step(self, name: str, op: str, *, status: int = 200, **fields: Any) -> Any:
        """``heartbeat`` or ``leave``; the whole answer."""
        return await self._patch(f"/api/v1/agents/{name}", {"op": op, **fields}, status, None)

    async def sweep(self) -> None:
        """Lets the hub write down what time has changed."""
        await self.hub.hub.sweeper.look()

    async def told(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        """Name and payload of the events about these kinds of things."""
        events = await self.api.events()
        return [(each["name"], each["data_json"]) for each in events if each["entity"]["type"] in kinds]

    async def _patch(self, path: str, body: dict[str, Any], status: int, key: str | None) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.api.call("PATCH", path, body, status=status, headers=headers)
