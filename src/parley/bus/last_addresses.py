"""Where each peer was last reached, kept in the folder so that it is found again where nothing is announced.

It is what this machine knows by experience, and still only a claim: another machine may have the address by now. So a
file that cannot be read is begun anew, and one that cannot be written fails nobody.
"""

from contextlib import suppress
from typing import Final

import msgspec

from parley.bus.fingerprint import Fingerprint, Hex32
from parley.bus.home import BusHome, read_private
from parley.bus.transport import Address
from parley.core import limits, untrusted_json
from parley.core.files import write_atomic

_HOST_CHARS_MAX: Final = 255
_PORT_MAX: Final = 65_535


class _Kept(msgspec.Struct, frozen=True):
    peer: Hex32
    host: str
    port: int


class LastAddresses:
    """The file, and what is in it. Raises ``FileUnsafe`` for one that others can change."""

    def __init__(self, home: BusHome) -> None:
        self._path = home.addresses
        self._known = _read(read_private(self._path))

    def reached(self, peer: Fingerprint, address: Address) -> None:
        """Notes where a peer was reached, and forgets who was not reached for longest."""
        if self._known.get(peer) == address or len(address.host) > _HOST_CHARS_MAX:
            return
        self._known.pop(peer, None)
        self._known[peer] = address
        if len(self._known) > limits.BUS_PEERS_KEPT:
            del self._known[next(iter(self._known))]
        kept = [_Kept(each.hex(), *address) for each, address in self._known.items()]
        with suppress(OSError):
            write_atomic(self._path, msgspec.json.encode(kept) + b"\n", durable=False)

    def candidates(self, peer: Fingerprint) -> list[Address]:
        """Where the peer was last reached, if it ever was."""
        found = self._known.get(peer)
        return [] if found is None else [found]

    def peers(self) -> set[Fingerprint]:
        """Who was reached."""
        return set(self._known)


def _read(data: bytes | None) -> dict[Fingerprint, Address]:
    try:
        found = [] if data is None else untrusted_json.decode(data, list[_Kept])
    except msgspec.DecodeError:
        found = []
    usable = (each for each in found if len(each.host) <= _HOST_CHARS_MAX and 0 < each.port <= _PORT_MAX)
    known = {Fingerprint(bytes.fromhex(each.peer)): Address(each.host, each.port) for each in usable}
    return dict(list(known.items())[-limits.BUS_PEERS_KEPT :])
