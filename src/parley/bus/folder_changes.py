"""What commands change in the folder while a bus runs: its certificate is renewed, or a key is revoked.

The folder is looked at every second. What cannot be read stays as it was, and is told once: whoever broke it sees it in
the next command, and a bus that ended for it would be of no use to anybody.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from parley.bus.bus import Bus
from parley.bus.home import BusHome
from parley.bus.renewal import renew_own
from parley.bus.standing import Standing, load_standing
from parley.bus.tls_contexts import credentials_of
from parley.bus.tls_transport import TlsTransport
from parley.core.clock import SystemClock
from parley.core.errors import ParleyError
from parley.core.files import stamp_of

_LOOK_SECONDS: Final = 1.0
_RENEW_SECONDS: Final = 3_600.0
"""How often the machine with the user key looks whether its own certificate ends soon."""


async def follow(home: BusHome, bus: Bus, transport: TlsTransport, note: Callable[[str], None]) -> None:
    """Takes up what changes, until it is cancelled."""
    grant, revocations = stamp_of(home.grant), stamp_of(home.revocations)
    loop = asyncio.get_running_loop()
    looked_at = loop.time()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if loop.time() >= looked_at + _RENEW_SECONDS:
            looked_at = loop.time()
            await _renew_own(home, note)
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


async def _renew_own(home: BusHome, note: Callable[[str], None]) -> None:
    try:
        await asyncio.to_thread(renew_own, home)
    except (ParleyError, OSError) as error:
        note(f"The certificate of this machine is not renewed: {error}")


def _renew(standing: Standing, bus: Bus, transport: TlsTransport) -> None:
    credentials = credentials_of(standing, SystemClock().now_ms())
    assert standing.grant is not None
    transport.renew(credentials)
    bus.renew(standing.grant.chain)
