"""The way to the hub: a client that starts the hub when it is down, and repeats what a restart cut off.

A call is a function of a client, with its idempotency key already in it. So a call that found no hub, or lost it
halfway, is made again as it was, and has one effect.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from parley.client import AsyncClient
from parley.core.errors import ConnectionFailed, HubNotRunning, ProtocolUnknown, ShuttingDown
from parley.core.ids import new_uuid

T = TypeVar("T")

PATIENCE_SECONDS: Final = 5.0
"""How long a hub that went away is waited for before it is started again, or its absence is told."""


class Link:
    """One agent's connection to one workspace. Belongs to the event loop that it is first used in."""

    def __init__(
        self, folder: Path | None, agent: str, *, start: bool, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """``folder`` is the workspace, or inside one; None is this folder. ``start`` lets a missing hub be started."""
        self.agent = agent
        self._folder = folder
        self._start = start
        self._patience_seconds = patience_seconds
        self._client: AsyncClient | None = None
        self._starting = asyncio.Lock()
        self._seen: int | None = None

    @property
    def client(self) -> AsyncClient:
        """The client. Raises ``WorkspaceNotFound`` as long as there is no workspace."""
        if self._client is None:
            self._client = AsyncClient(
                self._folder, sender=self.agent, agent=self.agent, patience_seconds=self._patience_seconds
            )
        return self._client

    async def call(self, ask: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """What the client answers. A hub that is down is started, if that is allowed, and asked again."""
        client = self.client
        try:
            return await ask(client)
        except ProtocolUnknown:
            raise
        except (HubNotRunning, ConnectionFailed, ShuttingDown):
            if not self._start:
                raise
        await self._start_hub(client)
        return await ask(client)

    def start_of_news(self, cursor: int | None) -> int | None:
        """Where news begin for this agent. A cursor that it hands in says that it has seen what came before."""
        if cursor is not None:
            self._seen = cursor
        return self._seen

    async def aclose(self) -> None:
        """Closes the connection. The hub goes on."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _start_hub(self, client: AsyncClient) -> None:
        workspace = client.workspace
        assert workspace is not None
        # Calls in the same trouble wait for one another, and the later ones find it running.
        async with self._starting, await AsyncClient.connect(workspace.root, start=True):
            return


def new_key() -> str:
    """An idempotency key for a call that was given none."""
    return new_uuid()
