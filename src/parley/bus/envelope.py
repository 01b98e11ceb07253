"""Signed envelopes: what one agent sends another, as bytes.

::

    tag "parley bus envelope" ‖ version u8 = 1 ‖ sender 32 ‖ recipient 32 ‖ nonce 24 ‖ sequence u64 ‖ message id 16
    ‖ flags u8 ‖ BLAKE3 of the payload 32                                     the head, which the sender signs
    signature 64 ‖ u32 length ‖ certificate chain ‖ u32 length ‖ payload

Numbers are big-endian; sender and recipient are fingerprints. The one flag, 1, says that the payload is sealed to the
recipient (``payload``). The hash is that of the payload as it is sent, and the chain needs no signature here: its last
certificate must be the sender's.

A payload is never copied: ``encode`` gives the bytes before it and leaves it to be written after them, and ``decode``
gives views of what it was handed. ``open_envelope`` is the only way to an envelope that may be believed.
"""

import struct
from typing import Final, NamedTuple

from blake3 import blake3

from parley.bus.blocks import LENGTH_BYTES, BlockReader, Buffer, Malformed, block
from parley.bus.chain import Authority, Chain, decode_chain, verify
from parley.bus.fingerprint import FINGERPRINT_BYTES, Fingerprint, fingerprint_of
from parley.bus.revocation import Revocations
from parley.core import limits, sealing
from parley.core.bus_errors import EnvelopeInvalid, FrameTooLarge, WrongRecipient
from parley.core.errors import InvalidInput

TAG: Final = b"parley bus envelope"
VERSION: Final = 1
SEALED: Final = 1
NONCE_BYTES: Final = 24
MESSAGE_ID_BYTES: Final = 16
SEQUENCE_MAX: Final = 2**64 - 1
_FIELDS: Final = struct.Struct(f">{len(TAG)}sB32s32s24sQ16sB32s")
HEAD_BYTES: Final = _FIELDS.size
_AROUND_BYTES: Final = HEAD_BYTES + sealing.SIGNATURE_BYTES + 2 * LENGTH_BYTES


class Head(NamedTuple):
    """What an envelope says of itself."""

    sender: Fingerprint
    recipient: Fingerprint
    nonce: bytes
    sequence: int
    message_id: bytes
    sealed: bool = False


class Envelope(NamedTuple):
    """An envelope that was read. Nothing about it is known to be true before ``open_envelope``."""

    head: Head
    signed: memoryview
    """The bytes of the head."""
    payload_hash: bytes
    signature: bytes
    chain: memoryview
    payload: memoryview


class Opened(NamedTuple):
    """An envelope that its sender signed, for us, with an authority that holds now."""

    head: Head
    authority: Authority
    payload: memoryview


def encode(head: Head, *payload: Buffer, chain: bytes, seed: bytes) -> bytes:
    """Everything of the envelope that comes before its payload, signed by the sender. A payload may be given in parts.

    Raises ``FrameTooLarge``, and ``InvalidInput`` for a field that is not as long as the format has it.
    """
    size = sum(map(len, payload))
    if _AROUND_BYTES + len(chain) + size > limits.BUS_FRAME_BYTES_MAX:
        raise FrameTooLarge(
            f"a payload of {size} bytes does not fit into an envelope", bytes_max=limits.BUS_FRAME_BYTES_MAX
        )
    _check_lengths(head)
    hashed = blake3()
    for part in payload:
        hashed.update(part)
    signed = _FIELDS.pack(
        TAG,
        VERSION,
        head.sender,
        head.recipient,
        head.nonce,
        head.sequence,
        head.message_id,
        SEALED if head.sealed else 0,
        hashed.digest(),
    )
    length = struct.pack(">I", size)
    return b"".join((signed, sealing.sign(seed, signed), block(chain), length))


def room(chain: bytes) -> int:
    """The bytes of a message that fit into an envelope with this chain, also when it is sealed."""
    return limits.BUS_FRAME_BYTES_MAX - _AROUND_BYTES - len(chain) - sealing.DIRECT_OVERHEAD_BYTES


def decode(data: Buffer) -> Envelope:
    """The envelope as it is written. Raises ``FrameTooLarge`` or ``EnvelopeInvalid``."""
    if len(data) > limits.BUS_FRAME_BYTES_MAX:
        raise FrameTooLarge(f"an envelope has at most {limits.BUS_FRAME_BYTES_MAX} bytes, not {len(data)}")
    reader = BlockReader(data)
    try:
        signed = reader.take(HEAD_BYTES)
        head, payload_hash = _read_head(signed)
        signature = bytes(reader.take(sealing.SIGNATURE_BYTES))
        chain = reader.block(limits.BUS_CHAIN_BYTES_MAX)
        payload = reader.block(limits.BUS_FRAME_BYTES_MAX)
        reader.end()
    except Malformed as error:
        raise EnvelopeInvalid(f"the envelope cannot be read: {error}") from error
    return Envelope(head, signed, payload_hash, signature, chain, payload)


def open_envelope(
    envelope: Envelope, *, recipient: Fingerprint, user: Fingerprint, now_ms: int, revocations: Revocations
) -> Opened:
    """Believes an envelope if there is every reason to. Whether it came before is for the store to say.

    Raises ``WrongRecipient``, ``EnvelopeInvalid``, or what ``chain.verify`` raises. The sender's signature is looked at
    before the rest of the chain, so a refusal that names a reason was earned by the sender itself.
    """
    if envelope.head.recipient != recipient:
        raise WrongRecipient("the envelope is addressed to another agent", recipient=envelope.head.recipient.hex())
    chain = decode_chain(envelope.chain)
    _check_signature(envelope, chain)
    authority = verify(chain, user=user, now_ms=now_ms, revocations=revocations)
    return Opened(envelope.head, authority, envelope.payload)


def _check_signature(envelope: Envelope, chain: Chain) -> None:
    if fingerprint_of(chain.agent_key) != envelope.head.sender:
        raise EnvelopeInvalid("the certificate is not that of the sender")
    if not sealing.verify(chain.agent_key, envelope.signature, bytes(envelope.signed)):
        raise EnvelopeInvalid("the envelope was not signed by the sender that it names")
    if blake3(envelope.payload).digest() != envelope.payload_hash:
        raise EnvelopeInvalid("the payload is not the one that the sender signed")


def _read_head(signed: memoryview) -> tuple[Head, bytes]:
    tag, version, sender, recipient, nonce, sequence, message_id, flags, payload_hash = _FIELDS.unpack(signed)
    if tag != TAG:
        raise Malformed("it does not begin as an envelope does")
    if version != VERSION:
        raise Malformed(f"version {version} is not known")
    if flags not in (0, SEALED):
        raise Malformed(f"flags {flags:#x} are not known")
    head = Head(Fingerprint(sender), Fingerprint(recipient), nonce, sequence, message_id, bool(flags))
    return head, payload_hash


def _check_lengths(head: Head) -> None:
    """``struct`` would pad or cut what is too short or too long, in silence."""
    lengths = (
        ("sender", head.sender, FINGERPRINT_BYTES),
        ("recipient", head.recipient, FINGERPRINT_BYTES),
        ("nonce", head.nonce, NONCE_BYTES),
        ("message_id", head.message_id, MESSAGE_ID_BYTES),
    )
    for name, value, length in lengths:
        if len(value) != length:
            raise InvalidInput(f"{name} has {length} bytes, not {len(value)}", field=name)
    if not 1 <= head.sequence <= SEQUENCE_MAX:
        raise InvalidInput(f"a sequence is between 1 and 2**64 - 1, not {head.sequence}", field="sequence")
