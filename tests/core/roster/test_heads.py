"""What a head that somebody tells of means: known, ahead, split, settled, or a lie."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from parley.core import sealing
from parley.core.roster import State, apply, entries
from parley.core.roster.heads import Head, judge_head, sign_head
from tests.core.roster.town import Town, key_of, seed_of

BROKER = seed_of("broker")


@pytest.fixture
def town() -> Town:
    town = Town()
    town.do("ada", "broker", entries.NameBroker(key_of("broker")))
    town.join("bob")
    return town


def judged(town: Town, head: Head) -> str:
    hashes = [entries.entry_hash(each) for each in town.log]
    return judge_head(town.state, lambda n: hashes[n] if n < len(hashes) else None, head)


def head_of(state: State, seed: bytes = BROKER) -> Head:
    return sign_head(state.n, state.head, fingerprint=state.fingerprint, seed=seed)


def branch(town: Town) -> State:
    """Where the mesh would be if somebody else had come to the place of what is appended next."""
    after = apply(town.state, town.entry("ada", "rename", entries.Rename("somebody.else")))
    assert isinstance(after, State)
    return after


def test_a_head_on_the_readers_chain_is_known_however_old(town: Town) -> None:
    old = head_of(town.state)
    town.join("carl")
    assert judged(town, head_of(town.state)) == "known"
    assert judged(town, old) == "known"


def test_who_is_behind_has_to_fetch_before_it_can_tell(town: Town) -> None:
    ahead = head_of(branch(town))
    assert judged(town, ahead) == "ahead"


def test_a_signed_head_beside_the_chain_is_a_split(town: Town) -> None:
    other = head_of(branch(town))
    town.join("carl")
    assert judged(town, other) == "split"


def test_what_the_broker_did_not_sign_is_a_lie_of_who_tells_it(town: Town) -> None:
    other = branch(town)
    town.join("carl")
    assert judged(town, head_of(other, seed_of("mallory"))) == "lie"
    elsewhere = sign_head(other.n, other.head, fingerprint="00" * 32, seed=BROKER)
    assert judged(town, elsewhere) == "lie"
    assert judged(town, replace(head_of(other), n=other.n - 1)) == "lie"


def test_a_head_of_the_time_before_there_was_a_broker_is_nobodys(town: Town) -> None:
    assert judged(town, sign_head(0, "ab" * 32, fingerprint=town.state.fingerprint, seed=BROKER)) == "lie"


def test_a_head_is_judged_by_the_broker_that_was_in_force_then(town: Town) -> None:
    other = branch(town)
    old, new = head_of(other), head_of(other, seed_of("another broker"))
    town.join("carl")
    town.do("ada", "broker", entries.NameBroker(key_of("another broker")))
    assert judged(town, old) == "split"
    assert judged(town, new) == "lie"


def test_the_heads_of_a_branch_that_lost_are_ignored(town: Town) -> None:
    other = head_of(branch(town))
    town.join("carl")
    town.do("ada", "settle", entries.Settle(town.state.n - 1, [other.hash]))
    assert judged(town, other) == "settled"


def test_a_head_crosses_the_wire_as_it_is(town: Town) -> None:
    head = head_of(town.state)
    assert msgspec.json.decode(msgspec.json.encode(head), type=Head) == head
    for broken in ({"n": -1}, {"hash": "x"}, {"sig": ""}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**json.loads(msgspec.json.encode(head)), **broken}, Head)


def test_every_changed_byte_of_a_head_makes_it_a_lie(town: Town) -> None:
    other = branch(town)
    town.join("carl")
    head = head_of(other)
    for place in range(sealing.SIGNATURE_BYTES):
        changed = bytearray(bytes.fromhex(head.sig))
        changed[place] ^= 1
        assert judged(town, replace(head, sig=changed.hex())) == "lie"
