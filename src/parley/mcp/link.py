"""The way to the hub: a client under the agent's name, that starts the hub when it is down and repeats what a restart
cut off.

A call is a function of a client, with its idempotency key already in it. So a call that found no hub, or lost it
halfway, is made again as it was, and has one effect.
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from parley.client import AsyncClient, Cursor, FileCursor
from parley.client.call import check_agent
from parley.client.identity import AGENT_VARIABLE, session_of_tools, whoami
from parley.client.lineage import Process, announce, announce_tools, living_tools, withdraw_tools
from parley.core.errors import ConnectionFailed, HubNotRunning, ParleyError, ProtocolUnknown, Refused, ShuttingDown
from parley.core.ids import new_uuid
from parley.core.limits import IDEMPOTENCY_KEY_CHARS_MAX
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading

T = TypeVar("T")

PATIENCE_SECONDS: Final = 5.0
"""How long a hub that went away is waited for before it is started again, or its absence is told."""


UNKNOWN_PROGRAM: Final = "mcp"
"""What a program is called that has not said its name."""


class Link:
    """One agent's connection to one workspace. Belongs to the event loop that it is first used in."""

    def __init__(
        self,
        folder: Path | None,
        *,
        program: str | None,
        model: str | None = None,
        name: str | None = None,
        process: Process | None = None,
        start: bool,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """``folder`` is the workspace, or inside one; None is this folder. ``start`` lets a missing hub be started.

        Raises ``WorkspaceNotFound`` as long as there is no workspace, and ``InvalidInput`` for a name that no
        hub can be told. ``name`` is the agent's, if it has said it; else it is the one that this program's session has
        in the workspace. ``process`` is the program's, if it runs on this machine: whatever else it starts is told
        that it works for this agent.
        """
        self._program = program
        self._model = model
        self._named = name
        self._start = start
        self._starting = asyncio.Lock()
        self._registering = asyncio.Lock()
        self._joined = False
        self._maybe_known = False
        self.client = AsyncClient(folder, patience_seconds=patience_seconds)
        assert self.client.workspace is not None
        self.workspace: Workspace = self.client.workspace
        self._process = process
        session = None if process is None else session_of_tools(self.workspace, process)
        own = whoami(self.workspace, program=program or UNKNOWN_PROGRAM, session=session)
        self._own_session = None if own.chosen else session  # whoever is given a name shares it with all who are
        check_agent(name or own.name, "name" if name else AGENT_VARIABLE)
        self._take_name(name or own.name)

    async def call(self, ask: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """What the client answers. A hub that is down is started, if that is allowed, and asked again."""
        try:
            return await ask(self.client)
        except ProtocolUnknown:
            raise
        except (HubNotRunning, ConnectionFailed, ShuttingDown):
            if not self._start:
                raise
        # Calls in the same trouble wait for one another, and the later ones find it running.
        async with self._starting, await AsyncClient.connect(self.workspace.root, start=True):
            pass
        return await ask(self.client)

    async def join(self) -> None:
        """Registers the agent, once. Whoever writes is known to the others, with the program that it is."""
        async with self._registering:
            if not self._joined:
                await self.call(self._register)

    async def show_life(self) -> None:
        """Registers the agent, or says that it still lives, if a hub is there to be told."""
        with suppress(ParleyError):
            async with self._registering:
                if not self._joined:
                    await self._register(self.client)
                    return
            try:
                await self.client.heartbeat()
            except Refused:  # it was swept, or somebody goes by its name
                self._joined = False

    async def leave(self, reason: str) -> None:
        """Says goodbye, if a hub is there to hear it: what the agent holds is given back.

        An agent that works with other tools as well has not left; the last of them says goodbye. A registration that
        is under way is waited for, since the hub would have it after the goodbye; one that was cut off may have
        arrived.
        """
        async with self._registering:
            if self._maybe_known and not self._works_elsewhere():
                self._joined = self._maybe_known = False
                with suppress(ParleyError):
                    await self.client.leave(reason=reason)

    def start_of_news(self, cursor: int | None) -> int | None:
        """Where news begin for this agent. A cursor that it hands in says that it has seen what came before."""
        file = FileCursor(self.workspace.agents / f"inbox-{_digest(self.agent)}")
        kept = file.load()
        with open_reading(self.workspace) as reading:
            db_id = reading.db_id
        if cursor is None:
            return kept.event_id if kept is not None and kept.db_id == db_id else None
        with suppress(OSError):  # a workspace that cannot be written; the agent has its cursor
            file.save(Cursor(cursor, db_id))
        file.close()
        return cursor

    async def aclose(self) -> None:
        """Closes the connection. The hub goes on."""
        await self.client.aclose()

    async def _register(self, client: AsyncClient) -> None:
        self._maybe_known = True
        if self._named is None:
            joined = await client.join(self._program or UNKNOWN_PROGRAM, model=self._model, session=self._own_session)
            self._take_name(joined.name)
        else:
            await client.register_agent(self._named, program=self._program, model=self._model, session=self._session)
        self._joined = True

    @property
    def _session(self) -> str:
        return f"agent {self._named}"  # as of any program that is told its name

    def _works_elsewhere(self) -> bool:
        """Whether other tools that run serve the same agent. Those that end at once all say goodbye, not none."""
        if self._process is not None:
            with suppress(OSError):
                withdraw_tools(self.workspace)
        return any(other.name == self.agent and other.pid != os.getpid() for other in living_tools(self.workspace))

    def _take_name(self, name: str) -> None:
        self.agent = name
        self.client.hub.agent = name
        self.client.caller = self.client.caller._replace(sender=name)
        if self._process is not None:
            program, session = self._program or UNKNOWN_PROGRAM, self._own_session or f"agent {name}"
            with suppress(OSError):  # a workspace that cannot be written
                announce(self.workspace, self._process, name=name, program=program, session=session)
                announce_tools(self.workspace, name=name, program=program, session=session)


def new_key() -> str:
    """An idempotency key for a call that was given none."""
    return new_uuid()


def key_of_part(key: str, part: str) -> str:
    """The key of one of several writes that a call makes, made from the call's own; also of the longest one."""
    whole = f"{key}.{part}"
    return whole if len(whole) <= IDEMPOTENCY_KEY_CHARS_MAX else hashlib.sha256(whole.encode()).hexdigest()


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
