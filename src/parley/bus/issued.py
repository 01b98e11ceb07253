"""Which machines a user let in, kept where the user key is: one that is lost can be revoked only by its fingerprint.

The list is for people. Certificates and statements decide what holds, so an entry that is missing lets nobody in and
keeps nobody out. Machines whose certificate has expired are left out.
"""

from typing import Final

import msgspec

from parley.bus.caveats import Time
from parley.bus.chain import Role
from parley.bus.fingerprint import Hex32
from parley.bus.home import BusHome, read_private
from parley.core import untrusted_json
from parley.core.bus_errors import FileDamaged
from parley.core.files import write_atomic

ISSUED_MAX: Final = 1_000
"""Machines that are kept; those that expire first give way."""


class Issued(msgspec.Struct, frozen=True):
    """A machine that was let in. ``agent`` is a fingerprint."""

    agent: Hex32
    host: str
    role: Role
    expires_at_ms: Time
    renewal: bool = True
    """Whether its certificate is renewed when it is met."""


def read_issued(home: BusHome) -> list[Issued]:
    """The machines, those first that expire last. Raises ``FileDamaged``."""
    data = read_private(home.issued)
    try:
        return [] if data is None else untrusted_json.decode(data, list[Issued])
    except msgspec.DecodeError as error:
        raise FileDamaged(f"{home.issued} cannot be read: {error}", path=str(home.issued)) from error


def keep_issued(home: BusHome, new: Issued, now_ms: int) -> None:
    """Adds a machine, in the place of an older entry of the same one. The folder must be ``locked``."""
    others = (each for each in read_issued(home) if each.agent != new.agent and each.expires_at_ms > now_ms)
    kept = sorted((new, *others), key=lambda each: each.expires_at_ms, reverse=True)[:ISSUED_MAX]
    write_atomic(home.issued, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
