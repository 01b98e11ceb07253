"""Multicast DNS: announces a service of this machine, and hears of the same service on others.

All that a record says is a claim. A record has a new name each time, so nobody can take the name first, and one that a
killed process has left behind stands in nobody's way. How many records are asked about at a time is bounded, and
``zeroconf`` bounds what it keeps itself. It is loaded only here, and only by whoever announces or looks.

Where there is no multicast, ``missing`` is told once, in a sentence, and everything else works.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from parley.bus.transport import Address
from parley.core import limits

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

_GROUP: Final = "224.0.0.251"
_ASKED_MAX: Final = 16
"""Records that are asked about at a time. Most come whole and need no question."""
_ASK_MS: Final = 3_000
_LOOK_SECONDS: Final = 30.0
"""How often this machine looks whether its own addresses have changed."""


Heard = Callable[[str, Mapping[str, str | None], list[Address]], None]
Lost = Callable[[str], None]


class Service(NamedTuple):
    """What is announced and looked for."""

    kind: str
    """As in ``_name._tcp.local.``"""
    name: str
    """With which the names of this machine's records begin."""
    properties: Mapping[str, str]
    heard: Heard
    """Is told the name of a record, its properties, and where it says that the service is."""
    lost: Lost
    """Is told the name of a record that was taken back or has expired."""


class Multicast:
    """Belongs to one event loop."""

    def __init__(
        self,
        service: Service,
        *,
        missing: Callable[[str], None],
        interfaces: Sequence[str] | None = None,
    ) -> None:
        """``interfaces`` names addresses of this machine; without, all are used but those that only it can reach."""
        self._service = service
        self._missing = missing
        self._interfaces = interfaces
        self._used: list[str] = []
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None

    async def start(self, listening: Address | None = None) -> None:
        """Looks for others from now on, and announces where this machine listens, if it does."""
        # Its warnings are for people who know what they mean; ours is one sentence.
        logging.getLogger("zeroconf").addHandler(logging.NullHandler())
        from zeroconf import IPVersion, NonUniqueNameException, NotRunningException
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

        self._used = self._usable()
        try:
            self._zeroconf = AsyncZeroconf(interfaces=_with_multicast(self._used), ip_version=IPVersion.V4Only)
            await self._zeroconf.zeroconf.async_wait_for_start()
            if listening is not None:
                await self._announce(listening)
        except (OSError, RuntimeError, NotRunningException, NonUniqueNameException) as error:
            await self.close()
            self._missing(f"peers are not found by themselves, as there is no multicast DNS here: {error}")
            return
        self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, self._service.kind, handlers=[self._changed])
        self._following = asyncio.get_running_loop().create_task(self._follow(listening))

    async def close(self) -> None:
        """Takes back what was announced, and hears nothing more. To close again does nothing."""
        for task in (*self._asking, *filter(None, [self._following])):
            task.cancel()
        zeroconf, self._zeroconf, self._following = self._zeroconf, None, None
        if self._browser is not None:
            await self._browser.async_cancel()
            self._browser = None
        if zeroconf is not None:
            await zeroconf.async_close()

    def _changed(self, *, zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        from zeroconf import ServiceStateChange
        from zeroconf.asyncio import AsyncServiceInfo

        if state_change is ServiceStateChange.Removed:
            self._service.lost(name)
            return
        record = AsyncServiceInfo(service_type, name)
        if record.load_from_cache(zeroconf):
            self._take(record)
        elif len(self._asking) < _ASKED_MAX:
            task = asyncio.get_running_loop().create_task(self._ask(zeroconf, record))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, zeroconf: Any, record: "AsyncServiceInfo") -> None:
        if await record.async_request(zeroconf, _ASK_MS):
            self._take(record)

    def _take(self, record: "AsyncServiceInfo") -> None:
        hosts = [host for host in record.parsed_scoped_addresses() if _can_be_dialled(host)]
        if hosts and record.port:
            self._service.heard(record.name, record.decoded_properties, [Address(host, record.port) for host in hosts])

    def _record(self, listening: Address) -> "AsyncServiceInfo":
        from zeroconf.asyncio import AsyncServiceInfo

        kind, name = self._service.kind, f"{self._service.name}-{secrets.token_hex(4)}"
        everywhere = ip_address(listening.host.partition("%")[0]).is_unspecified
        return AsyncServiceInfo(
            kind,
            f"{name}.{kind}",
            port=listening.port,
            server=f"{name}.local.",
            parsed_addresses=self._used if everywhere else [listening.host],
            properties=dict(self._service.properties),
        )

    async def _announce(self, listening: Address) -> None:
        zeroconf: Any = self._zeroconf
        await zeroconf.async_register_service(self._record(listening), cooperating_responders=True)

    async def _follow(self, listening: Address | None) -> None:
        """Goes with a machine that changes its network."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            used = self._usable()
            if used == self._used or self._zeroconf is None:
                continue
            with suppress(OSError, RuntimeError):  # the network is changing still; the next look finds it settled
                await self._zeroconf.async_update_interfaces(_with_multicast(used))
                self._used = used
                if listening is not None:
                    await self._zeroconf.async_unregister_all_services()
                    await self._announce(listening)

    def _usable(self) -> list[str]:
        return list(self._interfaces or own_addresses())


def own_addresses() -> list[str]:
    """The addresses under which others may reach this machine, those of version 4 first."""
    import ifaddr

    found = [str(ip.ip if ip.is_IPv4 else ip.ip[0]) for adapter in ifaddr.get_adapters() for ip in adapter.ips]
    reachable = [each for each in found if not (ip_address(each).is_loopback or ip_address(each).is_link_local)]
    return sorted(reachable, key=lambda each: (":" in each, each))[: limits.BUS_ANNOUNCED_ADDRESSES_MAX]


def _with_multicast(hosts: Sequence[str]) -> list[str]:
    """Those whose networks carry multicast, of version 4, as every LAN does. Raises ``OSError`` if there are none."""
    usable: list[str] = []
    failure = OSError("no network of this machine has an address")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        for host in hosts:
            if ":" in host:
                continue
            try:
                membership = socket.inet_aton(_GROUP) + socket.inet_aton(host)
                trial.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            except OSError as error:
                failure = error
            else:
                usable.append(host)
    if not usable:
        raise failure
    return usable


def _can_be_dialled(host: str) -> bool:
    found = ip_address(host)
    without_network = isinstance(found, IPv6Address) and found.is_link_local and found.scope_id is None
    return not (found.is_multicast or found.is_unspecified or without_network)
