"""Keys, signatures and seals of a mesh: everything that keeps a broker from reading or forging what it carries.

A member has one ed25519 key, of which its 32-byte *seed* is the secret; the curve25519 key for sealing is made from it.
A mesh has one 32-byte *mesh key* per key-epoch, which no broker ever sees.

- A direct message is a NaCl ``box`` from the sender's key to the recipient's.
- What several members read (topics, groups, everybody) is a ``secretbox`` under a key derived from the mesh key.
- The mesh key itself travels between two members as a direct message of a purpose of its own.

Sealed bytes are always ``nonce ‖ ciphertext``. Each seal is bound to a ``Context``: who says it, where, in answer to
what. Opened under another context it is as broken as if a byte had changed, so nobody can carry a message to another
topic, another mesh or another sender's name. (A box takes no associated data, so its plaintext begins with the
context's digest; a secretbox's key is derived from it.)

Nothing here draws randomness by itself but ``secrets.token_bytes``, the default of every ``random`` argument; a
simulation hands in its own. What cannot be opened or verified is answered with None or False, not with an exception:
for whoever reads what strangers sent, that is an ordinary outcome. ``nacl`` is loaded on first use.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput

Random = Callable[[int], bytes]
"""So many bytes that nobody can guess."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
SIGNATURE_BYTES: Final = 64
_TAG_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
DIRECT_OVERHEAD_BYTES: Final = NONCE_BYTES + _TAG_BYTES + _DIGEST_BYTES
"""How much longer a sealed direct message is than its text."""
SHARED_OVERHEAD_BYTES: Final = NONCE_BYTES + _TAG_BYTES

_PAIRS_CACHED: Final = 64
_SECRETS_CACHED: Final = 4_096
"""Peers whose shared secret is kept at hand: to make it anew takes longer than to seal a message with it."""
_MESSAGE: Final = "parley message 1"
_MESH_KEY: Final = "parley mesh key 1"
_SAFETY_GROUPS: Final = 6
_SAFETY_BITS: Final = 20
_SAFETY_MODULUS: Final = 100_000


class Context(NamedTuple):
    """What a seal is bound to. The names are those of the frame that carries the message."""

    mesh_id: str
    kind: str
    ref: str
    sender: str
    """The sender's public key in hexadecimal."""
    reply_to: str = ""


def new_key(random: Random = secrets.token_bytes) -> bytes:
    """A member's seed, or a mesh key: 32 bytes."""
    return random(KEY_BYTES)


def public_key(seed: bytes) -> bytes:
    """The public half of a member's key."""
    return _pair(seed)[0]


def sign(seed: bytes, data: bytes) -> bytes:
    """The member's signature over the data: 64 bytes, the same each time."""
    from nacl import bindings

    return bindings.crypto_sign(data, _pair(seed)[1])[:SIGNATURE_BYTES]


def verify(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the owner of this public key signed exactly this."""
    from nacl import bindings, exceptions

    if len(public) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        bindings.crypto_sign_open(signature + data, public)
    except exceptions.CryptoError:
        return False
    return True


def seal_direct(
    text: bytes, context: Context, *, sender_seed: bytes, recipient: bytes, random: Random = secrets.token_bytes
) -> bytes:
    """A message that the recipient alone can open. Raises ``InvalidInput`` when ``recipient`` is no public key."""
    return box(text, bound_to(_MESSAGE, context), sender_seed, recipient, random)


def open_direct(sealed: bytes, context: Context, *, recipient_seed: bytes) -> bytes | None:
    """The text of a direct message; its sender is the context's."""
    return unbox(sealed, bound_to(_MESSAGE, context), recipient_seed, _from_hex(context.sender))


def can_be_sealed_to(public: bytes) -> bool:
    """Whether this is a key for which a message could be sealed; not every one that verifies a signature is."""
    from nacl import bindings, exceptions

    try:
        bindings.crypto_sign_ed25519_pk_to_curve25519(public)
    except exceptions.CryptoError:
        return False
    return True


def seal_shared(text: bytes, context: Context, *, mesh_key: bytes, random: Random = secrets.token_bytes) -> bytes:
    """A message that every member can open who has the mesh key of the epoch."""
    return lock(text, _message_key(mesh_key, context), random)


def open_shared(sealed: bytes, context: Context, *, mesh_key: bytes) -> bytes | None:
    """The text, if it was sealed under this mesh key and context."""
    return unlock(sealed, _message_key(mesh_key, context))


def seal_mesh_key(
    mesh_key: bytes,
    *,
    mesh_id: str,
    key_epoch: int,
    sender_seed: bytes,
    recipient: bytes,
    random: Random = secrets.token_bytes,
) -> bytes:
    """The mesh key of an epoch, from a member who has it to one who does not yet."""
    digest = bound_to(_MESH_KEY, (mesh_id, key_epoch, public_key(sender_seed).hex()))
    return box(mesh_key, digest, sender_seed, recipient, random)


def open_mesh_key(sealed: bytes, *, mesh_id: str, key_epoch: int, sender: bytes, recipient_seed: bytes) -> bytes | None:
    """The mesh key that this sender sealed. Whether the sender is to be believed is for the caller to know."""
    opened = unbox(sealed, bound_to(_MESH_KEY, (mesh_id, key_epoch, sender.hex())), recipient_seed, sender)
    return opened if opened is not None and len(opened) == KEY_BYTES else None


def box(text: bytes, digest: bytes, seed: bytes, recipient: bytes, random: Random) -> bytes:
    """The text from one key's owner to another's, bound to the digest. Raises ``InvalidInput`` for no key."""
    from nacl import bindings

    secret = _shared_secret(seed, recipient)
    if secret is None:
        raise InvalidInput("the recipient's public key is not one that can be sealed to", field="recipient")
    nonce = random(NONCE_BYTES)
    return nonce + bindings.crypto_box_afternm(digest + text, nonce, secret)


def unbox(sealed: bytes, digest: bytes, seed: bytes, sender: bytes) -> bytes | None:
    """The text of a ``box`` from this sender that is bound to this digest."""
    from nacl import bindings, exceptions

    secret = _shared_secret(seed, sender)
    if secret is None or len(sealed) < DIRECT_OVERHEAD_BYTES:
        return None
    try:
        opened = bindings.crypto_box_open_afternm(sealed[NONCE_BYTES:], sealed[:NONCE_BYTES], secret)
    except exceptions.CryptoError:
        return None
    return opened[_DIGEST_BYTES:] if hmac.compare_digest(opened[:_DIGEST_BYTES], digest) else None


def lock(text: bytes, key: bytes, random: Random) -> bytes:
    """The text under a key that several have."""
    from nacl import bindings

    nonce = random(NONCE_BYTES)
    return nonce + bindings.crypto_secretbox(text, nonce, key)


def unlock(locked: bytes, key: bytes) -> bytes | None:
    """The text that was locked under this key."""
    from nacl import bindings, exceptions

    if len(locked) < SHARED_OVERHEAD_BYTES:
        return None
    try:
        return bindings.crypto_secretbox_open(locked[NONCE_BYTES:], locked[:NONCE_BYTES], key)
    except exceptions.CryptoError:
        return None


def bound_to(purpose: str, parts: tuple[str | int, ...]) -> bytes:
    """One digest for a purpose and its parts, to bind a seal or a signature to them."""
    return hashlib.blake2b(canonical_json([purpose, *parts]), digest_size=_DIGEST_BYTES).digest()


def derive_key(key: bytes, purpose: str, *parts: str | int) -> bytes:
    """A key for one purpose: keyed BLAKE2b over the purpose and the parts, so none leads to another or back."""
    return hashlib.blake2b(canonical_json([purpose, *parts]), key=key, digest_size=KEY_BYTES).digest()


def same_key(one: bytes, other: bytes) -> bool:
    """Whether two secrets are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


def safety_number(one: bytes, other: bytes) -> str:
    """Six groups of five digits, the same for both members: read aloud, they tell that nobody stands between them."""
    low, high = sorted((one, other))
    bits = int.from_bytes(hashlib.sha256(low + high).digest()[: _SAFETY_GROUPS * _SAFETY_BITS // 8])
    shifts = range((_SAFETY_GROUPS - 1) * _SAFETY_BITS, -1, -_SAFETY_BITS)
    groups = ((bits >> shift) % (1 << _SAFETY_BITS) % _SAFETY_MODULUS for shift in shifts)
    return " ".join(f"{group:05d}" for group in groups)


@lru_cache(_PAIRS_CACHED)
def _pair(seed: bytes) -> tuple[bytes, bytes]:
    from nacl import bindings

    return bindings.crypto_sign_seed_keypair(seed)


def _message_key(mesh_key: bytes, context: Context) -> bytes:
    return derive_key(mesh_key, _MESSAGE, *context)


@lru_cache(_SECRETS_CACHED)
def _shared_secret(seed: bytes, other: bytes) -> bytes | None:
    """What a box between the two is sealed with; None when ``other`` is no point that a key could be."""
    from nacl import bindings, exceptions

    if len(other) != KEY_BYTES:
        return None
    try:
        theirs = bindings.crypto_sign_ed25519_pk_to_curve25519(other)
        ours = bindings.crypto_sign_ed25519_sk_to_curve25519(_pair(seed)[1])
        return bindings.crypto_box_beforenm(theirs, ours)
    except exceptions.CryptoError:
        return None


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
