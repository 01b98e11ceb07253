"""Keys of an epoch: only those that the roster commits to count, whoever hands them on."""

import hashlib

import pytest
from msgspec.structs import replace

from parley.core import sealing
from parley.core.roster.epoch_keys import EpochKeys, data_key_before, fits, hand, key_body, new_keys, take, with_keys
from tests.core.roster.town import Town, seed_of


def random(count: int) -> bytes:
    return hashlib.sha256(b"random").digest()[:count]


def with_epochs(number: int) -> tuple[Town, list[EpochKeys]]:
    town, made = Town(), list[EpochKeys]()
    for each in range(number):
        keys = EpochKeys(each + 1, seed_of(f"mesh {each}"), seed_of(f"data {each}"))
        body = key_body(town.state, keys, made[-1] if made else None, random)
        town.do("ada", "key", body)
        made.append(keys)
    return town, made


def test_new_keys_are_of_the_next_epoch_and_fit_once_they_are_committed_to() -> None:
    town, _ = with_epochs(1)
    keys = new_keys(town.state, random)
    assert keys.epoch == 2
    assert not fits(town.state, keys)
    town.do("ada", "key", key_body(town.state, keys, None, random))
    assert fits(town.state, keys)


@pytest.mark.parametrize("changed", [{"mesh": b"\1" * 32}, {"data": b"\1" * 32}, {"epoch": 2}])
def test_keys_that_were_not_committed_to_do_not_fit(changed: dict[str, bytes]) -> None:
    town, (first, _) = with_epochs(2)
    assert fits(town.state, first)
    assert not fits(town.state, replace(first, **changed))


def test_each_data_key_leads_to_the_one_before() -> None:
    town, (first, second) = with_epochs(2)
    assert data_key_before(town.state, second) == EpochKeys(1, b"", first.data)
    assert data_key_before(town.state, first) is None
    assert data_key_before(town.state, replace(second, data=b"\1" * 32)) is None


def test_keys_are_handed_to_one_member_by_one_member_for_one_mesh() -> None:
    town, (keys,) = with_epochs(1)
    fingerprint = town.state.fingerprint
    ada, bob, eve = (seed_of(name) for name in ("ada", "bob", "eve"))
    sealed = hand(keys, fingerprint=fingerprint, giver_seed=ada, recipient=sealing.public_key(bob), random=random)
    giver = sealing.public_key(ada)
    assert take(sealed, 1, fingerprint=fingerprint, giver=giver, recipient_seed=bob) == keys
    assert take(sealed, 1, fingerprint=fingerprint, giver=giver, recipient_seed=eve) is None
    assert take(sealed, 2, fingerprint=fingerprint, giver=giver, recipient_seed=bob) is None
    assert take(sealed, 1, fingerprint="0" * 64, giver=giver, recipient_seed=bob) is None
    assert take(sealed, 1, fingerprint=fingerprint, giver=sealing.public_key(eve), recipient_seed=bob) is None


def test_a_mesh_key_joins_the_data_key_that_came_through_the_chain() -> None:
    whole = EpochKeys(1, b"m" * 32, b"d" * 32)
    data = replace(whole, mesh=b"")
    assert with_keys([data], whole) == [whole]
    assert with_keys([whole], data) == [whole]
    other = replace(whole, data=b"e" * 32)
    assert with_keys([whole], other) == [whole, other]
