"""What commands change in the folder while a bus runs: its certificate is renewed, or a key is revoked.

The folder is looked at every second. What cannot be read stays as it was, and is told once: whoever broke it sees it in
the next command, and a bus that ended for it would be of no use to anybody.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from parley.bus.bus import Bus
from parley.bus.home import BusHome
from parley.bus.standing import Standing, load_standing
from parley.bus.tls_contexts import credentials_of
from parley.bus.tls_transport import TlsTransport
from parley.core.clock import SystemClock
from parley.core.errors import ParleyError
from parley.core.files import stamp_of

_LOOK_SECONDS: Final = 1.0


async def follow(home: BusHome, bus: Bus, transport: TlsTransport, note: Callable[[str], None]) -> None:
    """Takes up what changes, until it is cancelled."""
    grant, revocations = stamp_of(home.grant), stamp_of(home.revocations)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        before, grant, revocations = (grant, revocations), stamp_of(home.grant), stamp_of(home.revocations)
        if before == (grant, revocations):
            continue
        try:
            standing = load_standing(home)
            await bus.learn(statement.encode() for statement in standing.revocations.statements)
            if before[0] != grant:
                _renew(standing, bus, transport)
        except (ParleyError, OSError) as error:
            note(f"What was changed in {home.root} is not used: {error}")


def _renew(standing: Standing, bus: Bus, transport: TlsTransport) -> None:
    credentials = credentials_of(standing, SystemClock().now_ms())
    assert standing.grant is not None
    transport.renew(credentials)
    bus.renew(standing.grant.chain)
