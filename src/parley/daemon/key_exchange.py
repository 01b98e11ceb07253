"""How the mesh key gets to the members, as functions over a membership and what the broker answered.

Nobody believes the broker. Whoever gives a key to a joiner first checks the joiner's proof, which only a holder of the
invite's secret can make; the joiner checks that the first key fits that secret, and from then on trusts who gave it.
Who replaces its key proves with the mesh key that the new one is its own.
A later key is believed from somebody trusted alone. What is not believed is thrown away, so that it is wanted again.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from parley.core import sealing
from parley.core.errors import InvalidInput
from parley.core.sealing import Random
from parley.daemon.memberships import Membership, MeshKey
from parley.wire.invites import decode_invite, fits_the_invite, is_proof_of
from parley.wire.mesh_methods import rotation_proof


class Gift(msgspec.Struct, frozen=True):
    """A sealed mesh key that somebody gave to this member."""

    key_epoch: int
    giver_id: str
    giver_key: str
    sealed: str


class Wanting(msgspec.Struct, frozen=True):
    """A member who has no key of the current epoch, and what it joined by."""

    member_id: str
    pubkey: str
    invite: str | None = None
    join_proof: str | None = None


class Believed(NamedTuple):
    """The membership with what was learnt, and the gifts to throw away."""

    membership: Membership
    refused: list[Gift]


class Given(NamedTuple):
    """A mesh key for a member, sealed to it."""

    member_id: str
    key_epoch: int
    sealed: str


def make_first_key(membership: Membership, epoch: int, random: Random) -> Membership | None:
    """The key of an epoch that nobody has made yet. An owner makes it; None for others and where there is one."""
    known = any(each.epoch == epoch for each in membership.mesh_keys)
    if membership.role != "owner" or known or (membership.invite and decode_invite(membership.invite)[1]):
        return None
    return _with_key(membership, MeshKey(epoch, sealing.new_key(random).hex()))


def believe(membership: Membership, gifts: Iterable[Gift]) -> Believed:
    """Takes over the keys that can be opened and trusted."""
    refused: list[Gift] = []
    seeds = membership.seed_bytes
    waiting = list(gifts)
    progress = True
    while progress:
        progress = False
        for gift in list(waiting):
            key = _opened(gift, membership, seeds)
            if key is not None and _trusts(membership, gift, bytes.fromhex(key.key)):
                waiting.remove(gift)
                trusted = dict.fromkeys([*membership.trusted, gift.giver_key])
                changed = replace(_with_key(membership, key), trusted=list(trusted))
                progress, membership = True, changed
    known = {each.epoch for each in membership.mesh_keys}
    refused += [gift for gift in waiting if gift.key_epoch not in known]
    return Believed(membership, refused)


def gifts_for(membership: Membership, wanting: Wanting, random: Random) -> list[Given]:
    """All mesh keys for a member who has shown that it holds an invite, or who is trusted already; else none."""
    joiner = _bytes(wanting.pubkey)
    if wanting.pubkey not in membership.trusted and not _has_proof(membership, wanting, joiner):
        return []
    return [
        Given(wanting.member_id, each.epoch, _seal(membership, each, joiner, random)) for each in membership.mesh_keys
    ]


def trusting(membership: Membership, pubkey: str) -> Membership:
    """The membership with one more key that is trusted."""
    return replace(membership, trusted=list(dict.fromkeys([*membership.trusted, pubkey])))


def _has_proof(membership: Membership, wanting: Wanting, joiner: bytes) -> bool:
    if not wanting.join_proof:
        return False
    if not wanting.invite:
        made = (
            rotation_proof(bytes.fromhex(each.key), membership.mesh_id, wanting.pubkey) for each in membership.mesh_keys
        )
        return any(sealing.same_key(each.encode(), wanting.join_proof.encode()) for each in made)
    try:
        invite, _ = decode_invite(wanting.invite)
    except InvalidInput:
        return False
    keys = (each for each in membership.mesh_keys if each.epoch == invite.key_epoch)
    proof = wanting.join_proof
    return any(is_proof_of(proof, bytes.fromhex(each.key), invite, joiner) for each in keys)


def _trusts(membership: Membership, gift: Gift, key: bytes) -> bool:
    if gift.giver_key in membership.trusted:
        return True
    if not membership.invite:
        return False
    invite, secret = decode_invite(membership.invite)
    return bool(secret) and gift.key_epoch == invite.key_epoch and fits_the_invite(key, secret, invite)


def _opened(gift: Gift, membership: Membership, seed: bytes) -> MeshKey | None:
    try:
        sealed = base64.b64decode(gift.sealed, validate=True)
    except (binascii.Error, ValueError):
        return None
    key = sealing.open_mesh_key(
        sealed,
        mesh_id=membership.mesh_id,
        key_epoch=gift.key_epoch,
        sender=_bytes(gift.giver_key),
        recipient_seed=seed,
    )
    return None if key is None else MeshKey(gift.key_epoch, key.hex())


def _seal(membership: Membership, key: MeshKey, recipient: bytes, random: Random) -> str:
    sealed = sealing.seal_mesh_key(
        bytes.fromhex(key.key),
        mesh_id=membership.mesh_id,
        key_epoch=key.epoch,
        sender_seed=membership.seed_bytes,
        recipient=recipient,
        random=random,
    )
    return base64.b64encode(sealed).decode()


def _with_key(membership: Membership, key: MeshKey) -> Membership:
    known = [*membership.mesh_keys, key]
    return replace(membership, mesh_keys=sorted(set(known), key=lambda each: (each.epoch, each.key)))


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
