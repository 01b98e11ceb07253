"""How a mesh begins: the broker makes it and an invite for its owner, and whoever bears one joins."""

import hashlib

import msgspec
import pytest

from parley.broker.done import Done
from parley.broker.rules.founding import Founded, FoundFirst, FoundMesh, Join
from parley.broker.rules.grants import grant
from parley.broker.rules.invites import register_invite
from parley.broker.store import BrokerStore
from parley.core import sealing
from parley.core.broker_errors import InviteRefused
from parley.core.errors import InvalidInput, ParleyError
from parley.wire.invites import Invite, decode_invite, encode_invite
from parley.wire.mesh_http import JoinMesh, join_bytes
from tests.conformance.broker.circle import Circle, key

SEED = hashlib.sha256(b"the joiner's").digest()


def found(store: BrokerStore, slug: str = "green", seed: bytes = b"\1" * 32) -> FoundMesh:
    return FoundMesh(slug, slug.title(), "ws://127.0.0.1:1", store.policy, seed)


def asks(invite: str, **changes: str) -> Join:
    """A join as its bearer signs it; ``changes`` are made after that."""
    bare = JoinMesh(invite, sealing.public_key(SEED).hex(), "dan", "0" * 128)
    signed = msgspec.structs.replace(bare, signature=sealing.sign(SEED, join_bytes(bare)).hex())
    return Join(msgspec.structs.replace(signed, **changes))


def joined(store: BrokerStore, join: Join) -> Done:
    return store.call(join)


def refused(store: BrokerStore, join: Join) -> ParleyError:
    with pytest.raises((InviteRefused, InvalidInput)) as caught:
        store.call(join)
    return caught.value


def test_who_bears_the_first_invite_is_the_owner_and_asking_again_changes_nothing(store: BrokerStore) -> None:
    founded: Founded = store.call(found(store))
    first = joined(store, asks(founded.invite))
    assert (first.result["joined"].role, first.result["created"]) == ("owner", True)
    assert [notice.name for notice in first.notices] == ["member_joined"]
    again = joined(store, asks(founded.invite))
    assert (again.result["joined"], again.result["created"], again.notices) == (first.result["joined"], False, ())


def test_a_mesh_that_nobody_joined_is_founded_again_with_the_same_key_and_another_invite(store: BrokerStore) -> None:
    first: Founded = store.call(found(store))
    second: Founded = store.call(found(store, seed=b"\2" * 32))
    assert first.mesh == second.mesh
    invites = [decode_invite(each.invite)[0] for each in (first, second)]
    assert invites[0].issuer == invites[1].issuer, "the broker's key is made once"
    assert invites[0].invite_id != invites[1].invite_id
    joined(store, asks(second.invite))
    with pytest.raises(InvalidInput):
        store.call(found(store))


def test_a_broker_has_a_first_mesh_only_while_there_is_no_other(store: BrokerStore) -> None:
    first: Founded | None = store.call(FoundFirst(found(store)))
    assert first is not None
    assert store.call(FoundFirst(found(store))) is not None, "a start that nobody made use of is repeated"
    joined(store, asks(first.invite))
    assert store.call(FoundFirst(found(store))) is None


def test_a_first_mesh_is_not_made_beside_others(circle: Circle) -> None:
    assert circle.store.call(FoundFirst(found(circle.store))) is None


def test_a_join_is_signed_by_its_key_holds_no_secret_and_names_a_mesh_that_is_there(store: BrokerStore) -> None:
    founded: Founded = store.call(found(store))
    assert refused(store, asks(founded.invite, pubkey=key("eve"))).details["reason"] == "signature"
    assert refused(store, asks(founded.invite, display_name="mallory")).details["reason"] == "signature"
    invite = decode_invite(founded.invite)[0]
    assert refused(store, asks(encode_invite(invite, b"\7" * 32))).details["field"] == "invite"
    elsewhere: Invite = msgspec.structs.replace(invite, mesh_id="mesh_elsewhere")
    assert refused(store, asks(encode_invite(elsewhere))).details["reason"] == "unknown"


def test_an_invite_that_nobody_signed_is_not_registered(circle: Circle) -> None:
    invite = decode_invite(circle.store.call(found(circle.store)).invite)[0]
    unsigned = msgspec.structs.replace(invite, signature="0" * 128)
    with pytest.raises(InviteRefused) as caught:
        circle.store.call(lambda tx: register_invite(tx, unsigned, None))
    assert caught.value.details["reason"] == "forged"


def test_only_what_can_be_taken_can_be_granted(circle: Circle) -> None:
    with pytest.raises(InvalidInput) as caught:
        circle.store.call(lambda tx: grant(tx, circle.mesh_id, circle.ann.member_id, circle.bob.member_id, ["all"]))
    assert caught.value.details["field"] == "capabilities"
