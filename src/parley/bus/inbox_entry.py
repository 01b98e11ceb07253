"""A message as it waits in the inbox: what came, and what it takes to read it after a restart.

``u8 sealed ‖ public key of the sender 32 ‖ payload``. A payload that was sealed end to end stays sealed on disk.
"""

from typing import Final, NamedTuple

from parley.bus.envelope import Opened
from parley.bus.message import BusMessage, Reply, decode_message
from parley.bus.payload import open_payload
from parley.bus.trust import Trust
from parley.core.bus_errors import PayloadUnreadable

_KEY_BYTES: Final = 32
_BEFORE: Final = 1 + _KEY_BYTES


class Entry(NamedTuple):
    """What the store keeps, and what it says."""

    stored: bytes
    """Empty for a reply, which nobody could use after a restart."""
    message: BusMessage


def enter(opened: Opened, trust: Trust) -> Entry:
    """The entry for an envelope. Raises ``PayloadUnreadable`` or ``EnvelopeInvalid``."""
    key, head = opened.authority.agent_key, opened.head
    message = _read(opened.payload, head.message_id, trust, sender_key=key, sealed=head.sealed)
    stored = b"" if isinstance(message, Reply) else b"".join((bytes([head.sealed]), key, opened.payload))
    return Entry(stored, message)


def read_entry(stored: bytes, message_id: bytes, trust: Trust) -> BusMessage:
    """What a stored entry says. Raises ``PayloadUnreadable`` or ``EnvelopeInvalid``."""
    if len(stored) < _BEFORE:
        raise PayloadUnreadable("the entry is cut off")
    payload = memoryview(stored)[_BEFORE:]
    return _read(payload, message_id, trust, sender_key=stored[1:_BEFORE], sealed=bool(stored[0]))


def _read(payload: memoryview, message_id: bytes, trust: Trust, *, sender_key: bytes, sealed: bool) -> BusMessage:
    if not sealed:
        return decode_message(payload)
    opened = open_payload(
        payload, user=trust.user, message_id=message_id, sender_key=sender_key, recipient_seed=trust.seed
    )
    return decode_message(opened)
