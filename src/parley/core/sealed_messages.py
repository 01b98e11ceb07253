"""Messages of a mesh that has a roster, as they cross a broker: sealed, bound to one place and one id, and signed.

What is sealed is bound to the roster's fingerprint, where the message goes, who says it, in answer to what, under which
id and in which key epoch. The same bytes under another id, or in another mesh that goes by the same name, do not open,
so a broker can replay nothing as something new.

A direct message is a box between two keys, so its recipient knows who made it. What several read is locked under the
mesh's key, which all of them have, so its sender's signature is inside::

    for one      box(inside)
    for several  lock(signature ‖ inside)           inside: {"body", "meta", "head"} as JSON

``head`` is the newest of the roster that the sender has.
"""

from typing import Any, Final, Literal, NamedTuple

import msgspec

from parley.core import sealing, untrusted_json
from parley.core.roster.heads import Head
from parley.core.sealing import Random

_ONE: Final = "parley message 2 for one"
_SEVERAL: Final = "parley message 2 for several"
_KEY: Final = "parley message 2 key"


class Context(NamedTuple):
    """What a seal is bound to."""

    fingerprint: str
    kind: str
    ref: str
    sender: str
    """The sender's id, which stays when its key is replaced."""
    client_message_id: str
    key_epoch: int
    """Of which epoch the mesh's key was when the message was sealed; also of one that is sealed for one."""
    reply_to: str = ""


class Said(msgspec.Struct, frozen=True):
    """What a message says, and how far its sender had read the roster."""

    body: str
    meta: dict[str, Any]
    head: Head | None


Unopened = Literal["closed", "unproven", "unreadable"]
"""No key opens it; it was opened, and its sender did not sign it; it was signed, and is no message."""


def seal_for_one(said: Said, context: Context, *, sender_seed: bytes, recipient: bytes, random: Random) -> bytes:
    """Bytes that the recipient alone can open. Raises ``InvalidInput`` for a key that nothing can be sealed to."""
    return sealing.box(_inside(said), sealing.bound_to(_ONE, context), sender_seed, recipient, random)


def open_for_one(sealed: bytes, context: Context, *, recipient_seed: bytes, sender: bytes) -> Said | Unopened:
    """What the owner of the key ``sender`` said to us."""
    opened = sealing.unbox(sealed, sealing.bound_to(_ONE, context), recipient_seed, sender)
    return "closed" if opened is None else _said(opened)


def seal_for_several(said: Said, context: Context, *, sender_seed: bytes, mesh_key: bytes, random: Random) -> bytes:
    """Bytes that every holder of the mesh's key can open, and that nobody but the sender could have made."""
    inside = _inside(said)
    signature = sealing.sign(sender_seed, sealing.bound_to(_SEVERAL, context) + inside)
    return sealing.lock(signature + inside, sealing.derive_key(mesh_key, _KEY, *context), random)


def open_for_several(sealed: bytes, context: Context, *, mesh_key: bytes, sender: bytes) -> Said | Unopened:
    """What the owner of the key ``sender`` said to all who have the mesh's key."""
    opened = sealing.unlock(sealed, sealing.derive_key(mesh_key, _KEY, *context))
    if opened is None:
        return "closed"
    signature, inside = opened[: sealing.SIGNATURE_BYTES], opened[sealing.SIGNATURE_BYTES :]
    if not sealing.verify(sender, signature, sealing.bound_to(_SEVERAL, context) + inside):
        return "unproven"
    return _said(inside)


def _inside(said: Said) -> bytes:
    return msgspec.json.encode(said)


def _said(inside: bytes) -> Said | Unopened:
    try:
        return untrusted_json.decode(inside, Said)
    except msgspec.DecodeError:
        return "unreadable"
