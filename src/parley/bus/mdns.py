"""Finding peers by multicast DNS: this machine announces where its agent listens, and hears where others do.

A record says ``agent`` and ``user``, both fingerprints, and has addresses and a port. Records of other users are passed
over. All of it is a claim: whoever announces somebody else's name receives a dial that fails, and nothing else. What is
kept is bounded (``announcements``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from parley.bus.announcements import Announcements
from parley.bus.fingerprint import Fingerprint, parse_fingerprint, short
from parley.bus.multicast import Multicast, Service
from parley.bus.transport import Address
from parley.core.errors import InvalidInput

SERVICE: Final = "_parley-bus._tcp.local."


class Mdns(Multicast):
    """Announces an agent, and fills ``announced``. It belongs to one event loop."""

    def __init__(
        self,
        agent: Fingerprint,
        user: Fingerprint,
        announced: Announcements,
        *,
        missing: Callable[[str], None],
        interfaces: Sequence[str] | None = None,
    ) -> None:
        def heard(name: str, said: Mapping[str, str | None], addresses: list[Address]) -> None:
            try:
                found, whose = (parse_fingerprint(said.get(each) or "") for each in ("agent", "user"))
            except InvalidInput:
                return
            if whose == user and found != agent:
                announced.put(name, found, addresses)

        properties = {"agent": agent.hex(), "user": user.hex()}
        service = Service(SERVICE, short(agent), properties, heard, announced.drop)
        super().__init__(service, missing=missing, interfaces=interfaces)
