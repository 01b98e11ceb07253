"""A message as it waits in the inbox: what came, and what it takes to read it after a restart.

``u8 sealed ‖ public key of the sender 32 ‖ payload``. A payload that was sealed end to end stays sealed on disk.
"""

from typing import Final, NamedTuple

from parley.bus.envelope import Opened
from parley.bus.message import BusMessage, decode_message
from parley.bus.payload import open_payload
from parley.bus.trust import Trust
from parley.core.bus_errors import PayloadUnreadable

_KEY_BYTES: Final = 32
_BEFORE: Final = 1 + _KEY_BYTES


class Entry(NamedTuple):
    """What the store keeps, and what it says."""

    stored: bytes
    message: BusMessage


def enter(opened: Opened, trust: Trust) -> Entry:
    """The entry for an envelope. Raises ``PayloadUnreadable`` or ``EnvelopeInvalid``."""
    stored = bytes([opened.head.sealed]) + opened.authority.agent_key + opened.payload
    return Entry(stored, read_entry(stored, opened.head.message_id, trust))


def read_entry(stored: bytes, message_id: bytes, trust: Trust) -> BusMessage:
    """What a stored entry says. Raises ``PayloadUnreadable`` or ``EnvelopeInvalid``."""
    if len(stored) < _BEFORE:
        raise PayloadUnreadable("the entry is cut off")
    payload = memoryview(stored)[_BEFORE:]
    if not stored[0]:
        return decode_message(payload)
    return decode_message(
        open_payload(
            payload,
            user=trust.user,
            message_id=message_id,
            sender_key=stored[1:_BEFORE],
            recipient_seed=trust.seed,
        )
    )
