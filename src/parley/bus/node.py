"""A machine on the bus: its keys, its durable store, its transport and its resolver, put together from its folder.

One process owns a store. While one listens it is that one. A process that does not listen joins the bus for a moment:
nobody can dial it, since it takes connections from this machine alone and announces nothing. It says that it subscribes
to what the last listener did, so that peers do not forget it; what they send meanwhile waits in the store for the next
listener.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Final, NamedTuple

import msgspec

from parley.bus.announcements import Announcements
from parley.bus.bus import Bus
from parley.bus.caveats import Topic
from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.fixed_addresses import FixedAddresses
from parley.bus.folder_changes import follow
from parley.bus.home import BusHome, read_private
from parley.bus.last_addresses import LastAddresses
from parley.bus.mdns import Mdns
from parley.bus.options import BusOptions, SpoolPolicy
from parley.bus.renewal import keep_renewal, renew_own, renew_peer
from parley.bus.resolver import LanResolver
from parley.bus.sqlite_store import SqliteMeshStore
from parley.bus.standing import add_revocations, identity_of, load_standing
from parley.bus.store_file import StoreIdentity
from parley.bus.tls_contexts import credentials_of
from parley.bus.tls_transport import TlsTransport
from parley.bus.transport import Resolver
from parley.core import limits, untrusted_json
from parley.core.bus_errors import ListenRefused
from parley.core.clock import SystemClock
from parley.core.files import write_atomic

_NOBODY_ELSE: Final = "127.0.0.1"


class Listening(NamedTuple):
    """How a machine listens; without a port on that of the last time, if it is free."""

    topics: frozenset[str]
    host: str | None = None
    port: int | None = None
    spool: SpoolPolicy | None = None
    """What waits for peers that are away; without, what is published."""


class Node(NamedTuple):
    """A bus, and where it finds peers."""

    bus: Bus
    resolver: Resolver
    transport: TlsTransport


class _Listened(msgspec.Struct, frozen=True):
    """What the last listener did."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    topics: tuple[Topic, ...] = ()


async def announced(node: Node, peer: Fingerprint, seconds: float) -> None:
    """Waits so long for the peer to be announced, if nothing is known of where it is."""
    seen = asyncio.Event()
    node.resolver.watch(lambda found: seen.set() if found == peer else None)
    if not node.resolver.candidates(peer):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await seen.wait()


@asynccontextmanager
async def joined(
    home: BusHome, *, listening: Listening | None = None, mdns: bool, note: Callable[[str], None]
) -> AsyncGenerator[Node]:
    """This machine on the bus. Raises the error for which it cannot be there; ``note`` is told what else is amiss."""
    before = _read(home)
    if listening is None:
        node, looking = await _join(home, Listening(frozenset(before.topics), _NOBODY_ELSE), 0, note)
    else:
        node, looking = await _join_at_a_port(home, listening, before, note)
        _write(home, _Listened(node.bus.address.port, tuple(sorted(listening.topics))))
    following = asyncio.create_task(follow(home, node.bus, node.transport, note))
    try:
        if mdns:
            await looking.start(None if listening is None else node.bus.address)
        yield node
    finally:
        following.cancel()
        await looking.close()
        await node.bus.close()


async def _join_at_a_port(
    home: BusHome, listening: Listening, before: _Listened, note: Callable[[str], None]
) -> tuple[Node, Mdns]:
    if listening.port is not None:
        return await _join(home, listening, listening.port, note)
    try:
        return await _join(home, listening, before.port, note)
    except ListenRefused:
        return await _join(home, listening, 0, note)


async def _join(home: BusHome, listening: Listening, port: int, note: Callable[[str], None]) -> tuple[Node, Mdns]:
    renew_own(home)
    standing = load_standing(home)
    credentials, identity = credentials_of(standing, SystemClock().now_ms()), identity_of(standing)
    agent, user = credentials.agent, fingerprint_of(identity.chain.user_key)
    announced, last = Announcements(), LastAddresses(home)
    resolver = LanResolver(agent, announced=announced, last=last, fixed=FixedAddresses(home))
    transport = TlsTransport(credentials, host=listening.host, port=port, reached=last.reached)
    bus = await Bus.bind_with(
        identity,
        store=SqliteMeshStore(home.store, StoreIdentity(agent, user)),
        resolver=resolver,
        transport=transport,
        options=BusOptions(
            spool=listening.spool,
            topics=listening.topics,
            keep_revocations=partial(add_revocations, home),
            renew=None if standing.user_seed is None else partial(renew_peer, home),
            keep_renewal=partial(keep_renewal, home),
        ),
    )
    return Node(bus, resolver, transport), Mdns(agent, user, announced, missing=note)


def _read(home: BusHome) -> _Listened:
    """What is not there, or cannot be read, is as if nobody had listened."""
    data = read_private(home.listened)
    try:
        found = _Listened() if data is None else untrusted_json.decode(data, _Listened)
    except msgspec.DecodeError:
        return _Listened()
    return found if len(found.topics) <= limits.BUS_SUBSCRIPTIONS_MAX else _Listened()


def _write(home: BusHome, listened: _Listened) -> None:
    write_atomic(home.listened, msgspec.json.encode(listened) + b"\n", durable=False)
