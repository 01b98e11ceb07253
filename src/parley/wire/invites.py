"""Invites: a text that lets whoever holds it join a mesh, so many times, until it expires or is taken back.

``parley-invite:`` is followed by base64url of the invite as JSON, then a dot and the invite's *secret* in base64url,
with four bytes at its end by which a text that was cut off or mistyped is known before anybody has used the invite.
The first part is for the broker: a member who may invite signed it (``invite_bytes``, and nothing else, is what is
signed), the broker keeps a row under its id, and that row counts its uses and can be revoked. The secret is for the
members alone; a daemon that joins cuts it off before it shows the invite to a broker.

The mesh key is not in an invite: an invite can be taken back, a key cannot. Instead the secret is derived from the mesh
key and the invite's id, which settles in both directions whom to trust although the broker stands between::

    joiner  → members    join_proof: made from the secret and the joiner's public key. A member that has the mesh key
                         makes the secret again, checks the proof, and only then seals the mesh key to that public key:
                         a broker cannot add a member of its own and be given the key.
    members → joiner     the sealed mesh key. From it the joiner makes the secret again and compares: nobody who was
                         not in the mesh can give it another key (``fits_the_invite``).

An invite without a secret is one that nobody with a mesh key has made: the owner's, with which a mesh begins.
"""

import hashlib
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from parley.core import limits, sealing, untrusted_json
from parley.core.base64url import from_base64url, to_base64url
from parley.core.clock import parse_iso
from parley.core.errors import InvalidInput
from parley.wire.broker import Key, Signature
from parley.wire.requests import Id

PREFIX: Final = "parley-invite:"
_SIGNED: Final = "parley invite 1"
_SECRET: Final = "parley invite secret 1"
_PROOF: Final = "parley join proof 1"
_UNSIGNED: Final = "0" * 128
_CHANGED: Final = "the invite was cut off or changed; copy the whole text again"
_CHECK_BYTES: Final = 4

Role = Literal["owner", "admin", "member"]
_END = r"(?![\s\S])"
_Line = Annotated[str, Meta(max_length=limits.INVITE_TEXT_CHARS_MAX, pattern=rf"^[^\x00-\x1f\x7f]+{_END}")]


class Invite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the broker and the joiner both read. ``signature`` is the issuer's, over ``invite_bytes``."""

    invite_id: Id
    mesh_id: Id
    mesh_slug: _Line
    broker_url: _Line
    role: Role
    issuer: Key
    expires_at: _Line
    uses_max: Annotated[int, Meta(ge=1, le=limits.INVITE_USES_MAX)]
    key_epoch: Annotated[int, Meta(ge=0, le=limits.VERSION_MAX)]
    """Which mesh key the secret is derived from."""
    signature: Signature = _UNSIGNED


def invite_bytes(invite: Invite) -> bytes:
    """What the issuer signs: every field but the signature, a line each, so that none can be moved into another."""
    fields = (getattr(invite, name) for name in Invite.__struct_fields__ if name != "signature")
    return "\n".join((_SIGNED, *map(str, fields))).encode()


def signed_invite(invite: Invite, issuer_seed: bytes) -> Invite:
    """The invite with its signature. The seed must be that of its ``issuer``."""
    if sealing.public_key(issuer_seed).hex() != invite.issuer:
        raise InvalidInput("an invite is signed by its issuer", field="issuer")
    return msgspec.structs.replace(invite, signature=sealing.sign(issuer_seed, invite_bytes(invite)).hex())


def is_signed(invite: Invite) -> bool:
    """Whether the issuer signed exactly this. Whether the issuer may invite, only the mesh's member list tells."""
    return sealing.verify(bytes.fromhex(invite.issuer), bytes.fromhex(invite.signature), invite_bytes(invite))


def has_expired(invite: Invite, now_ms: int) -> bool:
    """At the very moment that it names, an invite is no longer good."""
    return now_ms >= parse_iso(invite.expires_at)


def invite_secret(mesh_key: bytes, invite: Invite) -> bytes:
    """The secret part, which every member with the mesh key of the invite's epoch can make."""
    return sealing.derive_key(mesh_key, _SECRET, invite.mesh_id, invite.invite_id)


def join_proof(secret: bytes, invite: Invite, joiner: bytes) -> str:
    """Shows the members, and tells a broker nothing, that the owner of this public key held the invite's secret."""
    return sealing.derive_key(secret, _PROOF, invite.mesh_id, joiner.hex()).hex()


def is_proof_of(proof: str, mesh_key: bytes, invite: Invite, joiner: bytes) -> bool:
    """A member's check before it seals the mesh key to the joiner."""
    expected = join_proof(invite_secret(mesh_key, invite), invite, joiner)
    return sealing.same_key(expected.encode(), proof.encode())


def fits_the_invite(mesh_key: bytes, secret: bytes, invite: Invite) -> bool:
    """The joiner's check of the first mesh key that it is given."""
    return sealing.same_key(invite_secret(mesh_key, invite), secret)


def encode_invite(invite: Invite, secret: bytes = b"") -> str:
    """The text to hand on; without the secret it is the text to show to the broker."""
    text = PREFIX + to_base64url(msgspec.json.encode(invite))
    return f"{text}.{to_base64url(secret + _check(text, secret))}" if secret else text


def decode_invite(text: str) -> tuple[Invite, bytes]:
    """The invite and its secret (empty when there is none). Raises ``InvalidInput`` for what is no invite.

    Neither the signature nor the time is looked at: the broker does, and says which of them is wrong.
    """
    text = text.strip()
    if not text.startswith(PREFIX):
        raise InvalidInput(f"an invite begins with {PREFIX}", field="invite")
    if len(text) > limits.INVITE_CHARS_MAX:
        raise InvalidInput(f"an invite has at most {limits.INVITE_CHARS_MAX} characters", field="invite")
    public, _, end = text.partition(".")
    try:
        invite = untrusted_json.decode(from_base64url(public.removeprefix(PREFIX)), Invite)
        parse_iso(invite.expires_at)
        end_bytes = from_base64url(end)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(_CHANGED, field="invite") from error
    secret, check = end_bytes[: sealing.KEY_BYTES], end_bytes[sealing.KEY_BYTES :]
    if end_bytes and check != _check(public, secret):
        raise InvalidInput(_CHANGED, field="invite")
    return invite, secret


def _check(public: str, secret: bytes) -> bytes:
    """Not against anybody: who can change the text can change this, too."""
    return hashlib.sha256(public.encode() + secret).digest()[:_CHECK_BYTES]
