"""Where a machine takes connections."""

import socket
from typing import Final

from parley.core.bus_errors import ListenRefused

_BACKLOG: Final = 128


def listening_socket(host: str | None, port: int) -> socket.socket:
    """Without a host on all addresses of the machine, with port 0 on a free one. Raises ``ListenRefused``."""
    try:
        if host is None:
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            listening = socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
        else:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"port {port}" if host is None else f"{host} port {port}"
        raise ListenRefused(f"cannot listen on {where}: {error}", host=host, port=port) from error
    listening.setblocking(False)
    return listening
