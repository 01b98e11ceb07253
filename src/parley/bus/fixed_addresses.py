"""A file of addresses that somebody wrote, for networks on which nothing is announced.

A line each: the fingerprint of an agent, a space, and its host and port, as in ``HOST:PORT`` or ``[ADDRESS]:PORT``.
Empty lines and what follows a ``#`` mean nothing. A peer may have several lines. What cannot be read is refused with
its line, as somebody expects it to hold.
"""

import logging
from typing import Final

from parley.bus.addresses import parse_address
from parley.bus.fingerprint import Fingerprint, parse_fingerprint
from parley.bus.home import BusHome
from parley.bus.transport import Address
from parley.core import limits
from parley.core.bus_errors import FileDamaged
from parley.core.errors import InvalidInput
from parley.core.files import stamp_of

_log: Final = logging.getLogger(__name__)
_FILE_CHARS_MAX: Final = 262_144
"""A line of each address that may be there, with a comment as long as itself."""


class FixedAddresses:
    """The file, read again when it has changed. Raises ``FileDamaged`` if it cannot be read at the start.

    A change that cannot be read is logged, and what was there before holds on: it is somebody's half-finished edit.
    """

    def __init__(self, home: BusHome) -> None:
        self._home = home
        self._stamp = stamp_of(home.peers)
        self._known = read_fixed_addresses(home)

    def candidates(self, peer: Fingerprint) -> list[Address]:
        """Where the file says that the peer is."""
        return list(self._now().get(peer, ()))

    def peers(self) -> set[Fingerprint]:
        """Whom the file names."""
        return set(self._now())

    def _now(self) -> dict[Fingerprint, list[Address]]:
        stamp = stamp_of(self._home.peers)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._known = read_fixed_addresses(self._home)
            except FileDamaged as error:
                _log.warning("fixed addresses stay as they were: %s", error)
        return self._known


def read_fixed_addresses(home: BusHome) -> dict[Fingerprint, list[Address]]:
    """What the file says; nothing where there is none. Raises ``FileDamaged``."""
    found: dict[Fingerprint, list[Address]] = {}
    for number, line in enumerate(_text(home).splitlines(), 1):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        peer, address = _parsed(home, number, said)
        addresses = found.setdefault(peer, [])
        if len(found) > limits.BUS_PEERS_KEPT or len(addresses) == limits.BUS_FIXED_ADDRESSES_MAX:
            raise _damaged(home, number, "names more than can be kept")
        addresses.append(address)
    return found


def _parsed(home: BusHome, number: int, said: str) -> tuple[Fingerprint, Address]:
    peer, *rest = said.split(maxsplit=1)
    try:
        return parse_fingerprint(peer), parse_address("".join(rest))
    except InvalidInput as error:
        raise _damaged(home, number, f"is no fingerprint with HOST:PORT: {error}") from error


def _text(home: BusHome) -> str:
    try:
        with home.peers.open(encoding="utf-8") as file:
            text = file.read(_FILE_CHARS_MAX + 1)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise FileDamaged(f"{home.peers} cannot be read: {error}", path=str(home.peers)) from error
    if len(text) > _FILE_CHARS_MAX:
        raise FileDamaged(f"{home.peers} is larger than {_FILE_CHARS_MAX} characters", path=str(home.peers))
    return text


def _damaged(home: BusHome, number: int, why: str) -> FileDamaged:
    return FileDamaged(f"line {number} of {home.peers} {why}", path=str(home.peers), line=number)
