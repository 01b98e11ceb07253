"""Ports for servers that go and come back, or must be told theirs: nobody else is given one while it is free.

The system gives whoever asks for any port one of a range of its own, also those who only connect. A server that comes
to a port of that range may find another one on it; one that comes to a port below it does not.
"""

import random
import socket
from contextlib import suppress
from pathlib import Path

_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_BELOW_AT_LEAST = 20_000
"""Also where the system gives nearly every port, there are enough here that two tests hardly meet."""


def lasting_port() -> int:
    """A port of 127.0.0.1 that is free and stays so."""
    given = int(_GIVEN.read_text().split()[0]) if _GIVEN.exists() else 32_768
    while True:
        # Not from the generator whose seed all processes of a test run share.
        port = random.SystemRandom().randrange(_LOWEST, max(given, _BELOW_AT_LEAST))
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
