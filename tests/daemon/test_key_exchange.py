"""How the mesh key gets about: given to who proves to be a member, and believed from who is trusted, never a broker."""

from itertools import count

import pytest
from msgspec.structs import replace

from parley.core import sealing
from parley.core.daemon_errors import MeshKeyMissing
from parley.daemon.joining import make_invite
from parley.daemon.key_exchange import Gift, Wanting, believe, gifts_for, make_first_key, trusting
from parley.daemon.memberships import Membership, MeshKey
from parley.wire.invites import decode_invite, encode_invite, is_signed, join_proof
from parley.wire.mesh_methods import rotation_proof

_NUMBERS = count(1)


def random(length: int) -> bytes:
    return next(_NUMBERS).to_bytes(length, "big")


def membership(name: str, role: str = "member", **changes: object) -> Membership:
    plain = Membership(
        mesh_id="mesh_1",
        slug="team",
        broker_url="http://broker",
        member_id=f"mem_{name}",
        display_name=name,
        seed=name.encode().ljust(32, b".").hex(),
        joined_at="",
        role=role,
    )
    return replace(plain, **changes)


def founder() -> Membership:
    made = make_first_key(membership("alice", "owner"), 1, random)
    assert made is not None
    return made


def invited(host: Membership, name: str) -> tuple[Membership, Wanting]:
    """A joiner, and what the broker tells the members of it."""
    text, invite = make_invite(host, role="member", uses=1, hours=1, now_ms=0)
    joiner = membership(name, invite=text.whole, trusted=[invite.issuer])
    public = bytes.fromhex(joiner.pubkey)
    _, secret = decode_invite(text.whole)
    return joiner, Wanting(joiner.member_id, joiner.pubkey, text.public, join_proof(secret, invite, public))


def handed(giver: Membership, wanting: Wanting) -> list[Gift]:
    gifts = gifts_for(giver, wanting, random)
    return [Gift(each.key_epoch, giver.member_id, giver.pubkey, each.sealed) for each in gifts]


def test_an_invite_is_signed_and_its_secret_is_not_for_the_broker() -> None:
    text, invite = make_invite(founder(), role="member", uses=3, hours=1, now_ms=0)
    assert is_signed(invite)
    assert decode_invite(text.public) == (invite, b"")
    assert text.public == encode_invite(invite)
    with pytest.raises(MeshKeyMissing):
        make_invite(membership("nobody"), role="member", uses=1, hours=1, now_ms=0)


def test_an_owner_makes_the_key_of_an_epoch_once_and_others_never() -> None:
    alice = founder()
    assert make_first_key(alice, 1, random) is None
    second = make_first_key(alice, 2, random)
    assert second is not None
    assert [each.epoch for each in second.mesh_keys] == [1, 2]
    assert make_first_key(membership("bob"), 1, random) is None


def test_a_joiner_that_holds_the_invites_secret_gets_the_key_and_believes_it() -> None:
    alice = founder()
    bob, wanting = invited(alice, "bob")
    believed = believe(bob, handed(alice, wanting))
    assert believed.membership.mesh_keys == alice.mesh_keys
    assert believed.refused == []
    assert alice.pubkey in believed.membership.trusted


def test_a_member_whom_the_broker_made_up_gets_no_key() -> None:
    alice = founder()
    _, wanting = invited(alice, "bob")
    mallory = membership("mallory")
    for forged in (
        Wanting("mem_m", mallory.pubkey),
        Wanting("mem_m", mallory.pubkey, wanting.invite, wanting.join_proof),
        Wanting("mem_m", mallory.pubkey, wanting.invite, "0" * 64),
        Wanting("mem_m", mallory.pubkey, "parley-invite:rubbish", wanting.join_proof),
        Wanting("mem_m", "zz", None, "0" * 64),
    ):
        assert gifts_for(alice, forged, random) == []


def test_a_key_that_the_broker_made_up_is_not_believed_and_thrown_away() -> None:
    alice = founder()
    bob, _ = invited(alice, "bob")
    mallory = replace(membership("mallory", "owner"), mesh_keys=[MeshKey(1, "ee" * 32)])
    forged = handed(trusting(mallory, bob.pubkey), Wanting(bob.member_id, bob.pubkey))
    believed = believe(bob, forged)
    assert believed.membership.mesh_keys == []
    assert believed.refused == forged
    rubbish = [Gift(1, "mem_m", mallory.pubkey, "no base64!"), Gift(1, "mem_m", "zz", "AAAA")]
    assert believe(bob, rubbish).refused == rubbish


def test_a_later_key_is_believed_from_whom_is_trusted_whatever_the_order() -> None:
    alice = founder()
    bob, wanting = invited(alice, "bob")
    later = make_first_key(alice, 2, random)
    assert later is not None
    gifts = handed(later, wanting)
    assert len(gifts) == 2
    for order in (gifts, gifts[::-1]):
        assert believe(bob, order).membership.mesh_keys == later.mesh_keys


def test_a_member_that_has_a_key_can_hand_it_on() -> None:
    alice = founder()
    bob, wanting = invited(alice, "bob")
    bob = believe(bob, handed(alice, wanting)).membership
    carol, wanting_too = invited(alice, "carol")
    assert believe(carol, handed(bob, wanting_too)).membership.mesh_keys == alice.mesh_keys


def test_who_replaced_its_key_proves_it_with_the_mesh_key() -> None:
    alice = founder()
    bob, wanting = invited(alice, "bob")
    bob = believe(bob, handed(alice, wanting)).membership
    rotated = replace(bob, seed="22" * 32)
    key = bytes.fromhex(bob.mesh_keys[0].key)
    proof = rotation_proof(key, "mesh_1", rotated.pubkey)
    later = make_first_key(alice, 2, random)
    assert later is not None
    gifts = handed(later, Wanting(bob.member_id, rotated.pubkey, None, proof))
    assert believe(rotated, gifts).membership.mesh_keys == later.mesh_keys
    assert gifts_for(later, Wanting(bob.member_id, rotated.pubkey, None, "0" * 64), random) == []


def test_gifts_to_a_key_that_was_replaced_since_are_no_reason_to_throw_them_away() -> None:
    alice = founder()
    bob, wanting = invited(alice, "bob")
    gifts = handed(alice, wanting)
    rotated = replace(believe(bob, gifts).membership, seed="22" * 32)
    assert believe(rotated, gifts).refused == []


def test_of_two_keys_for_one_epoch_all_choose_the_same_and_open_both() -> None:
    keys = [MeshKey(2, "11" * 32), MeshKey(2, "99" * 32), MeshKey(1, "ff" * 32)]
    for order in (keys, keys[::-1]):
        assert replace(membership("alice"), mesh_keys=order).newest_key == MeshKey(2, "99" * 32)
    assert sealing.KEY_BYTES == 32
