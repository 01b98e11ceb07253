"""The clients: one blocking, one asynchronous, with the same methods made from the same descriptions.

A client is made without touching the network. Reads go to the workspace's file; the hub is looked up with the first
call that needs it. ``connect`` looks it up at once, and starts one if none runs and the caller asked for that.
"""

import asyncio
import os
import random as stdlib_random
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar, Unpack

from parley.client import agents, calls, leases, reads, tasks
from parley.client.backoff import FEED_BACKOFF, Backoff, Random
from parley.client.call import Call, Caller, Read
from parley.client.cursor import CursorStore
from parley.client.feed import AsyncFeed, Feed, Handler
from parley.client.feed_machine import FeedMachine
from parley.client.hub_location import AtUrl, InWorkspace, start_and_reach, start_hub
from parley.client.identity import keep_name, whoami
from parley.client.methods import awaiting, blocking
from parley.client.retry import Hub, Patience
from parley.client.runners import AsyncRunner, BlockingRunner
from parley.client.steps import HubAddress, Steps
from parley.core.errors import AgentNameTaken, HubNotRunning, InvalidInput, ProtocolUnknown, WorkspaceNotFound
from parley.core.ids import new_uuid
from parley.wire.entities import Agent
from parley.workspace import discovery
from parley.workspace.layout import Workspace
from parley.workspace.reading import open_reading

T = TypeVar("T")
Place = str | os.PathLike[str] | Workspace


class Options(TypedDict, total=False):
    """What a client can be made with besides its workspace; ``_Client.__init__`` tells the meaning of each."""

    url: str | None
    token: str | None
    sender: str | None
    agent: str | None
    timeout: float
    patience_seconds: float
    random: Random


class _Client:
    """What both clients share."""

    def __init__(
        self,
        workspace: Place | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        sender: str | None = None,
        agent: str | None = None,
        timeout: float = 10.0,
        patience_seconds: float = 30.0,
        random: Random = stdlib_random.random,
    ) -> None:
        """A client of the workspace in this folder or the nearest one above.

        Without a folder it is the one that ``PARLEY_WORKSPACE`` names, else the one around the current folder.

        ``url`` names the hub instead, and reads then go there too unless a workspace is given as well. ``token``
        replaces the one in the workspace. ``agent`` is the name under which requests are made: each is a sign of life
        of that agent. ``sender`` is who messages are from and who holds tasks and leases, by default the agent.
        ``timeout`` bounds one request, ``patience_seconds`` the waits between the tries of one call.
        """
        self.workspace: Workspace | None = None
        if isinstance(workspace, Workspace):
            self.workspace = workspace
        elif workspace is not None or url is None:
            self.workspace = discovery.discover(None if workspace is None else Path(workspace))
        self.caller = Caller(agent if sender is None else sender, new_uuid)
        self.hub = Hub(
            _locate(self.workspace, url, token), agent=agent, patience=Patience(patience_seconds), random=random
        )
        self._timeout = timeout
        self._random = random

    def _ensure_hub(self, start: bool, idle_shutdown_ms: int | None) -> Steps[HubAddress]:
        try:
            return (yield from self.hub.reach())
        except ProtocolUnknown:
            raise
        except HubNotRunning:
            if not start or self.workspace is None:
                raise
        return (yield from start_and_reach(self.workspace.root, self.hub.reach, idle_shutdown_ms=idle_shutdown_ms))

    def _join(self, program: str, model: str | None, session: str | None) -> Steps[Agent]:
        """Registers this program under its name, or the next one that is free if the name was made up."""
        identity = whoami(self.workspace, program=program, session=session)
        while True:
            described = agents.register_agent(
                self.caller, identity.name, program=program, model=model, session=identity.session
            )
            try:
                agent = (yield from self.hub.perform(described)).agent
            except AgentNameTaken as taken:
                if identity.chosen:
                    raise
                identity = keep_name(identity, str(taken.details["suggestion"]))
                continue
            self.hub.agent = agent.name
            if self.caller.sender is None:
                self.caller = self.caller._replace(sender=agent.name)
            return agent

    def _from_file(self, call: Call[T]) -> Callable[[], T] | None:
        """How to answer the call without a hub, if that is possible."""
        workspace = self.workspace
        if workspace is None or not isinstance(call, Read) or call.from_file is None:
            return None
        from_file = call.from_file

        def read() -> T:
            with open_reading(workspace) as reading:
                return from_file(reading.connection)

        return read

    def _feed_machine(
        self,
        after: int | None,
        channels: Sequence[str] | None,
        topics: Sequence[str] | None,
        cursor: CursorStore | None,
        backoff: Backoff,
    ) -> FeedMachine:
        stored = cursor.load() if cursor is not None else None
        return FeedMachine(
            random=self._random, cursor=stored, after=after, channels=channels, topics=topics, backoff=backoff
        )


class Client(_Client):
    """A blocking client. Several threads may share it; each feed belongs to one."""

    def __init__(self, workspace: Place | None = None, **options: Unpack[Options]) -> None:
        super().__init__(workspace, **options)
        self._runner = BlockingRunner(self._timeout)
        self._feeds: weakref.WeakSet[Feed] = weakref.WeakSet()

    @classmethod
    def connect(
        cls,
        workspace: Place | None = None,
        *,
        start: bool = False,
        idle_shutdown_ms: int | None = None,
        **options: Unpack[Options],
    ) -> "Client":
        """A client whose hub is known to run. Raises ``HubNotRunning``, unless ``start`` lets it start one now.

        A hub that is started outlives this process; ``idle_shutdown_ms`` makes it stop when nobody uses it any more.
        """
        _check_start(start, options)
        try:
            client = cls(workspace, **options)
        except WorkspaceNotFound:
            if not start or workspace is None or isinstance(workspace, Workspace):
                raise
            BlockingRunner(0).run(start_hub(Path(workspace), idle_shutdown_ms=idle_shutdown_ms))
            client = cls(workspace, **options)
        try:
            client._runner.run(client._ensure_hub(start, idle_shutdown_ms))
        except BaseException:
            client.close()
            raise
        return client

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the feeds and the connections. The hub goes on."""
        for feed in list(self._feeds):
            feed.close()
        self._runner.close()

    def perform(self, call: Call[T]) -> T:
        """Carries out a call that was described, from the file if that is enough."""
        from_file = self._from_file(call)
        return self._runner.run(self.hub.perform(call)) if from_file is None else from_file()

    def join(self, program: str = "parley", *, model: str | None = None, session: str | None = None) -> Agent:
        """Takes part as an agent, under the name that ``whoami`` knows; what follows is said and done in that name.

        A made-up name that another living session has is replaced by a free one, for good.
        """
        return self._runner.run(self._join(program, model, session))

    def events(
        self,
        after: int | None = None,
        *,
        channels: Sequence[str] | None = None,
        topics: Sequence[str] | None = None,
        cursor: CursorStore | None = None,
        on_state: Handler | None = None,
        backoff: Backoff = FEED_BACKOFF,
    ) -> Feed:
        """The events after a cursor, then those that come, for ever; without a cursor from the oldest one kept.

        Channels are named by id or name, topics by id; an event that matches any of them is passed on, and without both
        every event. A cursor store is read now and written as events are processed; ``after`` counts while it is empty.
        """
        machine = self._feed_machine(after, channels, topics, cursor, backoff)
        feed = Feed(machine, cursor, on_state, lambda: self._runner.run(self.hub.reach()), self._timeout)
        self._feeds.add(feed)
        return feed

    health = blocking(calls.health)
    ping = blocking(calls.ping)
    status = blocking(calls.status)
    rotate_token = blocking(calls.rotate_token)
    page_link = blocking(calls.page_link)
    create_channel = blocking(calls.create_channel)
    create_topic = blocking(calls.create_topic)
    rename_topic = blocking(calls.rename_topic)
    send_message = blocking(calls.send_message)
    edit_message = blocking(calls.edit_message)
    delete_message = blocking(calls.delete_message)
    retopic_message = blocking(calls.retopic_message)
    move_preview = blocking(calls.move_preview)
    add_attachment = blocking(calls.add_attachment)
    store_findings = blocking(calls.store_findings)
    list_plugins = blocking(calls.list_plugins)
    re_enrich = blocking(calls.re_enrich)
    list_channels = blocking(reads.list_channels)
    list_topics = blocking(reads.list_topics)
    get_topic = blocking(reads.get_topic)
    get_message = blocking(reads.get_message)
    tail_messages = blocking(reads.tail_messages)
    page_messages = blocking(reads.page_messages)
    message_history = blocking(reads.message_history)
    list_attachments = blocking(reads.list_attachments)
    list_enrichments = blocking(reads.list_enrichments)
    search = blocking(reads.search)
    read_events = blocking(reads.read_events)
    register_agent = blocking(agents.register_agent)
    heartbeat = blocking(agents.heartbeat)
    leave = blocking(agents.leave)
    list_agents = blocking(agents.list_agents)
    get_agent = blocking(agents.get_agent)
    create_task = blocking(tasks.create_task)
    claim_task = blocking(tasks.claim_task)
    claim_next_task = blocking(tasks.claim_next_task)
    renew_task = blocking(tasks.renew_task)
    release_task = blocking(tasks.release_task)
    complete_task = blocking(tasks.complete_task)
    cancel_task = blocking(tasks.cancel_task)
    take_over_task = blocking(tasks.take_over_task)
    list_tasks = blocking(tasks.list_tasks)
    get_task = blocking(tasks.get_task)
    acquire_lease = blocking(leases.acquire_lease)
    renew_lease = blocking(leases.renew_lease)
    release_lease = blocking(leases.release_lease)
    list_leases = blocking(leases.list_leases)
    get_lease = blocking(leases.get_lease)
    check_paths = blocking(leases.check_paths)


class AsyncClient(_Client):
    """An asynchronous client. It belongs to the event loop that it is first used in."""

    def __init__(self, workspace: Place | None = None, **options: Unpack[Options]) -> None:
        super().__init__(workspace, **options)
        self._runner = AsyncRunner(self._timeout)
        self._feeds: weakref.WeakSet[AsyncFeed] = weakref.WeakSet()

    @classmethod
    async def connect(
        cls,
        workspace: Place | None = None,
        *,
        start: bool = False,
        idle_shutdown_ms: int | None = None,
        **options: Unpack[Options],
    ) -> "AsyncClient":
        """A client whose hub is known to run. Raises ``HubNotRunning``, unless ``start`` lets it start one now.

        A hub that is started outlives this process; ``idle_shutdown_ms`` makes it stop when nobody uses it any more.
        """
        _check_start(start, options)
        try:
            client = cls(workspace, **options)
        except WorkspaceNotFound:
            if not start or workspace is None or isinstance(workspace, Workspace):
                raise
            await AsyncRunner(0).run(start_hub(Path(workspace), idle_shutdown_ms=idle_shutdown_ms))
            client = cls(workspace, **options)
        try:
            await client._runner.run(client._ensure_hub(start, idle_shutdown_ms))
        except BaseException:
            await client.aclose()
            raise
        return client

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the feeds and the connections. The hub goes on."""
        for feed in list(self._feeds):
            await feed.aclose()
        await self._runner.aclose()

    async def perform(self, call: Call[T]) -> T:
        """Carries out a call that was described, from the file if that is enough."""
        from_file = self._from_file(call)
        if from_file is None:
            return await self._runner.run(self.hub.perform(call))
        return await asyncio.to_thread(from_file)

    async def join(self, program: str = "parley", *, model: str | None = None, session: str | None = None) -> Agent:
        """Takes part as an agent, under the name that ``whoami`` knows; what follows is said and done in that name.

        A made-up name that another living session has is replaced by a free one, for good.
        """
        return await self._runner.run(self._join(program, model, session))

    def events(
        self,
        after: int | None = None,
        *,
        channels: Sequence[str] | None = None,
        topics: Sequence[str] | None = None,
        cursor: CursorStore | None = None,
        on_state: Handler | None = None,
        backoff: Backoff = FEED_BACKOFF,
    ) -> AsyncFeed:
        """The events after a cursor, then those that come, for ever; without a cursor from the oldest one kept.

        Channels are named by id or name, topics by id; an event that matches any of them is passed on, and without both
        every event. A cursor store is read now and written as events are processed; ``after`` counts while it is empty.
        """
        machine = self._feed_machine(after, channels, topics, cursor, backoff)
        feed = AsyncFeed(machine, cursor, on_state, lambda: self._runner.run(self.hub.reach()), self._timeout)
        self._feeds.add(feed)
        return feed

    health = awaiting(calls.health)
    ping = awaiting(calls.ping)
    status = awaiting(calls.status)
    rotate_token = awaiting(calls.rotate_token)
    page_link = awaiting(calls.page_link)
    create_channel = awaiting(calls.create_channel)
    create_topic = awaiting(calls.create_topic)
    rename_topic = awaiting(calls.rename_topic)
    send_message = awaiting(calls.send_message)
    edit_message = awaiting(calls.edit_message)
    delete_message = awaiting(calls.delete_message)
    retopic_message = awaiting(calls.retopic_message)
    move_preview = awaiting(calls.move_preview)
    add_attachment = awaiting(calls.add_attachment)
    store_findings = awaiting(calls.store_findings)
    list_plugins = awaiting(calls.list_plugins)
    re_enrich = awaiting(calls.re_enrich)
    list_channels = awaiting(reads.list_channels)
    list_topics = awaiting(reads.list_topics)
    get_topic = awaiting(reads.get_topic)
    get_message = awaiting(reads.get_message)
    tail_messages = awaiting(reads.tail_messages)
    page_messages = awaiting(reads.page_messages)
    message_history = awaiting(reads.message_history)
    list_attachments = awaiting(reads.list_attachments)
    list_enrichments = awaiting(reads.list_enrichments)
    search = awaiting(reads.search)
    read_events = awaiting(reads.read_events)
    register_agent = awaiting(agents.register_agent)
    heartbeat = awaiting(agents.heartbeat)
    leave = awaiting(agents.leave)
    list_agents = awaiting(agents.list_agents)
    get_agent = awaiting(agents.get_agent)
    create_task = awaiting(tasks.create_task)
    claim_task = awaiting(tasks.claim_task)
    claim_next_task = awaiting(tasks.claim_next_task)
    renew_task = awaiting(tasks.renew_task)
    release_task = awaiting(tasks.release_task)
    complete_task = awaiting(tasks.complete_task)
    cancel_task = awaiting(tasks.cancel_task)
    take_over_task = awaiting(tasks.take_over_task)
    list_tasks = awaiting(tasks.list_tasks)
    get_task = awaiting(tasks.get_task)
    acquire_lease = awaiting(leases.acquire_lease)
    renew_lease = awaiting(leases.renew_lease)
    release_lease = awaiting(leases.release_lease)
    list_leases = awaiting(leases.list_leases)
    get_lease = awaiting(leases.get_lease)
    check_paths = awaiting(leases.check_paths)


def _locate(workspace: Workspace | None, url: str | None, token: str | None) -> Callable[[], Steps[HubAddress]]:
    if url is not None:
        return AtUrl(url, lambda: token or _token_on_disk(workspace)).locate
    assert workspace is not None
    return InWorkspace(workspace, _db_id, token).locate


def _token_on_disk(workspace: Workspace | None) -> str | None:
    if workspace is None or not workspace.token.exists():
        return None
    return workspace.token.read_text().strip()


def _db_id(workspace: Workspace) -> str:
    with open_reading(workspace) as reading:
        return reading.db_id


def _check_start(start: bool, options: Options) -> None:
    if start and options.get("url") is not None:
        raise InvalidInput("A hub can be started in a workspace, not at a url", field="start")
