"""Keys of epochs on their way: handed on by anybody, compared with the roster, and thrown away if they do not fit."""

import base64
import secrets
from typing import Any

import pytest

from parley.core import sealing
from parley.core.errors import RateLimited
from parley.core.roster.epoch_keys import EpochKeys, hand
from parley.daemon.rosters import acts
from parley.daemon.rosters.errands import append, catch_up
from parley.daemon.rosters.keys import hand_on_keys, take_keys
from tests.conformance.broker.rostered import Rostered
from tests.daemon.rosters.holder import Holder, keys_of


@pytest.fixture
def ada(mesh: Rostered) -> Holder:
    for name in ("bob", "cid"):
        mesh.join(name)
    made = reader(mesh, "ada")
    made.held = [keys_of(1)]
    return made


def reader(mesh: Rostered, name: str) -> Holder:
    made = Holder(mesh, name)
    made.run(catch_up(made.copy))
    return made


def gives(mesh: Rostered, giver: str, to: str, keys: EpochKeys) -> None:
    """What a member that speaks as it likes hands on."""
    town = mesh.town
    sealed = hand(
        keys,
        fingerprint=town.state.fingerprint,
        giver_seed=town.seeds[giver],
        recipient=sealing.public_key(town.seeds[to]),
        random=secrets.token_bytes,
    )
    mesh.call(
        giver,
        "give_key",
        member_id=town.ids[to],
        key_epoch=keys.epoch,
        sealed=base64.b64encode(sealed).decode(),
    )


def test_all_who_lack_the_key_are_given_it_and_take_it(mesh: Rostered, ada: Holder) -> None:
    assert ada.run(hand_on_keys(ada.copy, ada.me)) == (2, False)
    assert ada.run(hand_on_keys(ada.copy, ada.me)) == (0, False)
    bob = reader(mesh, "bob")
    assert bob.run(take_keys(bob.copy, bob.me))
    assert bob.held == [keys_of(1)]
    assert not bob.run(take_keys(bob.copy, bob.me)), "it is here already"


def test_any_member_that_has_the_key_hands_it_on(mesh: Rostered, ada: Holder) -> None:
    bob = reader(mesh, "bob")
    bob.held = [keys_of(1)]
    bob.run(hand_on_keys(bob.copy, bob.me))
    cid = reader(mesh, "cid")
    assert cid.run(take_keys(cid.copy, cid.me))


@pytest.mark.parametrize(
    "forged",
    [EpochKeys(1, b"\1" * 32, keys_of(1).data), EpochKeys(1, keys_of(1).mesh, b"\1" * 32)],
    ids=["mesh key", "data key"],
)
def test_nobody_chooses_a_key_for_others(mesh: Rostered, ada: Holder, forged: EpochKeys) -> None:
    gives(mesh, "cid", "bob", forged)
    bob = reader(mesh, "bob")
    assert not bob.run(take_keys(bob.copy, bob.me))
    assert bob.held == []
    assert bob.asked()[-1] == "refuse_key"
    assert ada.run(hand_on_keys(ada.copy, ada.me)) == (2, False), "it is seen to be wanted again"
    assert bob.run(take_keys(bob.copy, bob.me))


def test_rubbish_in_place_of_a_key_is_thrown_away(mesh: Rostered, ada: Holder) -> None:
    mesh.call("cid", "give_key", member_id=mesh.town.ids["bob"], key_epoch=1, sealed="AAAA")
    bob = reader(mesh, "bob")
    assert not bob.run(take_keys(bob.copy, bob.me))
    assert bob.asked()[-1] == "refuse_key"


def test_who_was_removed_is_handed_nothing_even_if_the_broker_says_that_it_wants_a_key(
    mesh: Rostered, ada: Holder
) -> None:
    removed = mesh.town.ids["cid"]
    ada.run(append(ada.copy, acts.put_out(removed, "remove"), ada.me))
    given: list[str] = []

    def lies(method: str, params: dict[str, Any]) -> Any:
        if method == "keys_wanted":
            return {"key_epoch": 2, "wanted": [{"member_id": removed}, {"member_id": "mem_nobody"}], "cursor": None}
        given.append(params["member_id"])
        return {}

    liar = Holder(mesh, "ada", asks=lies)
    liar.copy, liar.held = ada.copy, ada.held
    assert liar.run(hand_on_keys(liar.copy, liar.me)) == (0, False)
    assert given == []


def test_a_broker_that_takes_no_more_requests_for_now_is_asked_again_later(mesh: Rostered, ada: Holder) -> None:
    def busy(method: str, params: dict[str, Any]) -> Any:
        if method == "give_key" and ada.asked().count("give_key") == 2:
            raise RateLimited(limit=50, retry_after=1.0)
        return mesh.call("ada", method, **params).result

    ada._asks = busy
    assert ada.run(hand_on_keys(ada.copy, ada.me)) == (1, True)
    ada._asks = lambda method, params: mesh.call("ada", method, **params).result
    assert ada.run(hand_on_keys(ada.copy, ada.me)) == (1, False)


def test_who_has_only_an_older_key_hands_nothing_on(mesh: Rostered, ada: Holder) -> None:
    bob = reader(mesh, "bob")
    bob.held = [keys_of(1)]
    ada.run(append(ada.copy, acts.put_out(mesh.town.ids["cid"], "remove"), ada.me))
    bob.run(catch_up(bob.copy))
    assert bob.run(hand_on_keys(bob.copy, bob.me)) == (0, False)


def test_a_key_of_an_epoch_that_the_copy_has_not_read_yet_is_left_where_it_is(mesh: Rostered, ada: Holder) -> None:
    bob = reader(mesh, "bob")
    ada.run(append(ada.copy, acts.put_out(mesh.town.ids["cid"], "remove"), ada.me))
    ada.run(hand_on_keys(ada.copy, ada.me))
    assert not bob.run(take_keys(bob.copy, bob.me))
    assert "refuse_key" not in bob.asked()
    bob.run(catch_up(bob.copy))
    assert bob.run(take_keys(bob.copy, bob.me))
