"""What a member tells of itself: a line on what it does, a title, a few words, a picture, what it is good at.

A profile is sealed with the mesh key and bound to its member, so a broker can neither read it nor pass it off as
another's. It is kept here, too: a change names only what changes, and a new mesh key wants it sealed anew.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from parley.core import sealed_messages, sealing, untrusted_json
from parley.core.daemon_errors import MeshKeyMissing
from parley.core.files import write_atomic
from parley.core.roster import Member
from parley.core.roster.epoch_keys import EpochKeys
from parley.core.sealed_messages import Said, open_for_several, seal_for_several
from parley.core.sealing import Context, Random
from parley.daemon.memberships import Membership
from parley.wire.daemon_home import DaemonHome
from parley.wire.daemon_requests import Capabilities, Line, Paragraph


class MemberProfile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The words of a profile, as they are sealed."""

    summary: Line | None = None
    title: Line | None = None
    bio: Paragraph | None = None
    avatar: Line | None = None
    capabilities: Capabilities = []


class OwnProfile(msgspec.Struct, frozen=True):
    """One's own, as it was told to the broker last."""

    profile: MemberProfile = MemberProfile()
    visible: bool = True
    key_epoch: int | None = None


def read_own(home: DaemonHome, mesh_id: str) -> OwnProfile | None:
    """What was told last; None when nothing ever was. A damaged file is the same as none."""
    try:
        return untrusted_json.decode(home.profile(mesh_id).read_bytes(), OwnProfile)
    except (OSError, msgspec.DecodeError):
        return None


def write_own(home: DaemonHome, mesh_id: str, own: OwnProfile) -> None:
    """Keeps it."""
    write_atomic(home.profile(mesh_id), msgspec.json.encode(own), durable=False)


def sealed_params(own: OwnProfile, membership: Membership, random: Random) -> dict[str, Any]:
    """The parameters of ``set_profile``. Raises ``MeshKeyMissing`` while the member has no mesh key yet."""
    key = membership.newest_key
    if key is None:
        raise MeshKeyMissing("The mesh key has not arrived yet", mesh=membership.slug, since=membership.joined_at)
    text = msgspec.json.encode(own.profile)
    context = _context(membership.mesh_id, membership.member_id)
    sealed = sealing.seal_shared(text, context, mesh_key=bytes.fromhex(key.key), random=random)
    return {"visible": own.visible, "sealed": base64.b64encode(sealed).decode(), "key_epoch": key.epoch}


def opened(membership: Membership, member_id: str, told: Any) -> dict[str, Any]:
    """The words of a peer's profile; nothing where there is none, or where no key of ours opens it."""
    try:
        sealed, epoch = base64.b64decode(told["sealed"], validate=True), int(told["key_epoch"])
    except (TypeError, KeyError, ValueError, binascii.Error):
        return {}
    context = _context(membership.mesh_id, member_id)
    for key in membership.mesh_keys:
        text = sealing.open_shared(sealed, context, mesh_key=bytes.fromhex(key.key)) if key.epoch == epoch else None
        if text is not None:
            try:
                return msgspec.to_builtins(untrusted_json.decode(text, MemberProfile))
            except msgspec.DecodeError:
                return {}
    return {}


def sealed_and_signed(
    own: OwnProfile, member_id: str, seed: bytes, fingerprint: str, keys: EpochKeys, random: Random
) -> dict[str, Any]:
    """The parameters of ``set_profile`` in a mesh with a roster, where nobody can write another's."""
    said = Said("", msgspec.to_builtins(own.profile), None)
    context = _signed_context(fingerprint, member_id, keys.epoch)
    sealed = seal_for_several(said, context, sender_seed=seed, mesh_key=keys.mesh, random=random)
    return {"visible": own.visible, "sealed": base64.b64encode(sealed).decode(), "key_epoch": keys.epoch}


def open_signed(told: Any, member: Member, fingerprint: str, keys: Iterable[EpochKeys]) -> dict[str, Any]:
    """The words of a peer's profile, if it has signed them; nothing where no key of ours opens them."""
    try:
        sealed, epoch = base64.b64decode(told["sealed"], validate=True), int(told["key_epoch"])
    except (TypeError, KeyError, ValueError, binascii.Error):
        return {}
    context = _signed_context(fingerprint, member.id, epoch)
    signers = [member.key, *(old.key for old in member.old_keys if not old.compromised)]
    for each in keys:
        for signer in signers if each.epoch == epoch else ():
            said = open_for_several(sealed, context, mesh_key=each.mesh, sender=bytes.fromhex(signer))
            if isinstance(said, Said):
                try:
                    return msgspec.to_builtins(msgspec.convert(said.meta, MemberProfile))
                except msgspec.ValidationError:
                    return {}
    return {}


def _signed_context(fingerprint: str, member_id: str, epoch: int) -> sealed_messages.Context:
    return sealed_messages.Context(fingerprint, "profile", member_id, member_id, "", epoch)


def _context(mesh_id: str, member_id: str) -> Context:
    return Context(mesh_id, "profile", member_id, "", "")
