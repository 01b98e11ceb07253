"""Where a server may listen: on loopback, unless a person says in so many words that the network is wanted.

The check returns the address to bind, so that a name is looked up once and what was checked is what is bound.
"""

import errno
import ipaddress
import socket
from contextlib import suppress
from typing import Final, NamedTuple

from parley.core.errors import BindRefused, StartupFailed

_BACKLOG: Final = 2_048
"""Connections that may wait to be accepted; the system lowers it to its own limit."""


class BoundSocket(NamedTuple):
    """A socket that listens. ``asked_port_taken`` tells that ``port`` is another than the one asked for."""

    socket: socket.socket
    port: int
    asked_port_taken: bool


def check_bind(host: str, *, unsafe_network: bool) -> str:
    """The numeric address to bind for ``host``. Raises ``BindRefused`` unless all it stands for is loopback."""
    addresses = _addresses(host)
    outside = [str(address) for address in addresses if not _is_loopback(address)]
    if outside and not unsafe_network:
        raise BindRefused(
            f"{host!r} is reachable from the network ({', '.join(outside)}), and the server speaks plain HTTP",
            host=host,
            addresses=outside,
        )
    # IPv4 first: 127.0.0.1 is what clients dial for `localhost`.
    return str(min(addresses, key=lambda address: address.version))


def bind(address: str, port: int, *, preferred: int = 0) -> BoundSocket:
    """Listens on ``address`` and ``port``, or on a free port if that one is taken.

    Port 0 asks for a free one; then ``preferred`` is tried first, and nothing is said if it cannot be had.
    """
    if port == 0 and preferred != 0:
        with suppress(OSError):
            return BoundSocket(_listen(address, preferred), preferred, False)
    try:
        try:
            listening = _listen(address, port)
            taken = False
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port == 0:
                raise
            listening = _listen(address, 0)
            taken = True
    except OSError as error:
        raise StartupFailed(
            f"Cannot listen on {address} port {port}: {error.strerror}", host=address, port=port
        ) from error
    return BoundSocket(listening, listening.getsockname()[1], taken)


def _addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    if not host:
        raise BindRefused("An empty host would listen on every address of this machine", host=host)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise BindRefused(f"{host!r} cannot be resolved to an address", host=host) from error
    # Only internet families are asked for by name or number; each entry's address is the first of its tuple.
    return [ipaddress.ip_address(entry[4][0]) for entry in found]


def _is_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        # With SO_REUSEADDR two sockets may be bound to one port; only the one that listens owns it.
        made.listen(_BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
