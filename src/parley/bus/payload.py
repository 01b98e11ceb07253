"""Sealing a payload to its recipient, so that it can lie in a spool, or pass another machine, unread.

The seal is bound to the user, both agents and the message id, but not to the envelope's nonce and sequence: a sealed
payload that waits in a spool goes into a new envelope at each try without being opened.
"""

import secrets

from parley.bus.blocks import Buffer
from parley.bus.fingerprint import Fingerprint
from parley.core import sealing
from parley.core.bus_errors import PayloadUnreadable
from parley.core.sealing import Context, Random


def seal_payload(
    text: bytes,
    *,
    user: Fingerprint,
    message_id: bytes,
    sender_seed: bytes,
    recipient_key: bytes,
    random: Random = secrets.token_bytes,
) -> bytes:
    """The payload for an envelope with the flag of a sealed one. Raises ``InvalidInput`` for a key that is none."""
    context = _context(user, message_id, sealing.public_key(sender_seed))
    return sealing.seal_direct(text, context, sender_seed=sender_seed, recipient=recipient_key, random=random)


def open_payload(
    sealed: Buffer, *, user: Fingerprint, message_id: bytes, sender_key: bytes, recipient_seed: bytes
) -> bytes:
    """What the sender sealed. Raises ``PayloadUnreadable``."""
    opened = sealing.open_direct(bytes(sealed), _context(user, message_id, sender_key), recipient_seed=recipient_seed)
    if opened is None:
        raise PayloadUnreadable("the payload was not sealed to this agent by this sender under this message id")
    return opened


def _context(user: Fingerprint, message_id: bytes, sender_key: bytes) -> Context:
    return Context(user.hex(), "bus", message_id.hex(), sender_key.hex())
