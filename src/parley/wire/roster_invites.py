"""Invites to a mesh with a roster, as the text that is handed on.

``parley-invite-2:`` is followed by base64url of what a joiner needs to find the mesh and to know it again, then a dot
and the invite's secret in base64url, with four bytes at its end by which a text that was cut off or mistyped is known.
The secret is the seed of the invite's own key: no broker ever sees it, and everybody can judge what it has signed.
"""

import hashlib
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from parley.core import limits, sealing, untrusted_json
from parley.core.base64url import from_base64url, to_base64url
from parley.core.errors import InvalidInput
from parley.core.roster.entries import Hex32, Invite
from parley.wire.mesh_http import Slug
from parley.wire.requests import Id

PREFIX: Final = "parley-invite-2:"
_CHANGED: Final = "the invite was cut off or changed; copy the whole text again"
_CHECK_BYTES: Final = 4
_END = r"(?![\s\S])"
_Line = Annotated[str, Meta(max_length=limits.INVITE_TEXT_CHARS_MAX, pattern=rf"^[^\x00-\x1f\x7f]+{_END}")]


class RosterInvite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the mesh is, by what it is known, and the invite as its issuer signed it."""

    mesh_id: Id
    mesh_slug: Slug
    broker_url: _Line
    fingerprint: Hex32
    invite: Invite


def is_roster_invite(text: str) -> bool:
    """Whether this is the text of an invite to a mesh with a roster."""
    return text.strip().startswith(PREFIX)


def encode_roster_invite(invite: RosterInvite, secret: bytes) -> str:
    """The text to hand on."""
    public = PREFIX + to_base64url(msgspec.json.encode(invite))
    return f"{public}.{to_base64url(secret + _check(public, secret))}"


def decode_roster_invite(text: str) -> tuple[RosterInvite, bytes]:
    """The invite and its secret, which belong together. Raises ``InvalidInput`` for anything else."""
    text = text.strip()
    if not text.startswith(PREFIX):
        raise InvalidInput(f"an invite begins with {PREFIX}", field="invite")
    if len(text) > limits.INVITE_CHARS_MAX:
        raise InvalidInput(f"an invite has at most {limits.INVITE_CHARS_MAX} characters", field="invite")
    public, _, end = text.partition(".")
    try:
        invite = untrusted_json.decode(from_base64url(public.removeprefix(PREFIX)), RosterInvite)
        end_bytes = from_base64url(end)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInput(_CHANGED, field="invite") from error
    secret, check = end_bytes[: sealing.KEY_BYTES], end_bytes[sealing.KEY_BYTES :]
    if check != _check(public, secret) or sealing.public_key(secret).hex() != invite.invite.id:
        raise InvalidInput(_CHANGED, field="invite")
    return invite, secret


def _check(public: str, secret: bytes) -> bytes:
    """Not against anybody: who can change the text can change this, too."""
    return hashlib.sha256(public.encode() + secret).digest()[:_CHECK_BYTES]
