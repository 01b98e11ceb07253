"""Messages between members of a roster: opened by whom they are for, under what they were said in, and by no other."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core import sealing
from parley.core.roster.heads import sign_head
from parley.core.sealed_messages import Context, Said, open_for_one, open_for_several, seal_for_one, seal_for_several

ALICE, BOB, CAROL, BROKER = (bytes([number]) * 32 for number in (1, 2, 3, 4))
KEY = bytes(range(32))
HEAD = sign_head(7, "ab" * 32, fingerprint="cd" * 32, seed=BROKER)
SAID = Said("hello", {"about": ["x"]}, HEAD)
CONTEXT = Context("cd" * 32, "topic", "#alerts", "mem_alice", "id-1", 3)
OTHERS = {
    "another mesh": CONTEXT._replace(fingerprint="ce" * 32),
    "another kind": CONTEXT._replace(kind="queue"),
    "another place": CONTEXT._replace(ref="#alert"),
    "another sender": CONTEXT._replace(sender="mem_bob"),
    "another id": CONTEXT._replace(client_message_id="id-2"),
    "another epoch": CONTEXT._replace(key_epoch=4),
    "an answer": CONTEXT._replace(reply_to="msg_1"),
}


def still(count: int) -> bytes:
    return b"\5" * count


def for_one(context: Context = CONTEXT) -> bytes:
    return seal_for_one(SAID, context, sender_seed=ALICE, recipient=sealing.public_key(BOB), random=still)


def opened_by(seed: bytes, sealed: bytes, context: Context = CONTEXT, sender: bytes = ALICE) -> object:
    return open_for_one(sealed, context, recipient_seed=seed, sender=sealing.public_key(sender))


def for_several(context: Context = CONTEXT, seed: bytes = ALICE) -> bytes:
    return seal_for_several(SAID, context, sender_seed=seed, mesh_key=KEY, random=still)


def opened(sealed: bytes, context: Context = CONTEXT, *, key: bytes = KEY, sender: bytes = ALICE) -> object:
    return open_for_several(sealed, context, mesh_key=key, sender=sealing.public_key(sender))


def test_a_direct_message_is_its_recipients() -> None:
    sealed = for_one()
    assert opened_by(BOB, sealed) == SAID
    assert opened_by(CAROL, sealed) == "closed"
    assert opened_by(BOB, sealed, sender=CAROL) == "closed"
    assert b"hello" not in sealed


def test_what_several_read_is_whoever_has_the_meshs_key() -> None:
    sealed = for_several()
    assert opened(sealed) == SAID
    assert opened(sealed, key=bytes(32)) == "closed"
    assert b"hello" not in sealed


def test_who_has_the_meshs_key_speaks_for_nobody_else() -> None:
    assert opened(for_several(seed=CAROL)) == "unproven"


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_m4_a_seal_means_nothing_where_it_was_not_said(other: Context) -> None:
    assert opened_by(BOB, for_one(), other) == "closed"
    assert opened(for_several(), other) == "closed"


def test_every_changed_byte_is_noticed() -> None:
    for sealed, read in ((for_one(), lambda each: opened_by(BOB, each)), (for_several(), opened)):
        for place in range(len(sealed)):
            changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
            assert read(changed) == "closed"


@given(st.binary(max_size=300))
def test_whatever_is_inside_is_a_message_or_unreadable(inside: bytes) -> None:
    bound = sealing.bound_to("parley message 2 for one", CONTEXT)
    sealed = sealing.box(inside, bound, ALICE, sealing.public_key(BOB), still)
    assert opened_by(BOB, sealed) == "unreadable"


@given(st.binary(max_size=300))
def test_bytes_of_strangers_stay_closed(sealed: bytes) -> None:
    assert opened_by(BOB, sealed) == "closed"
    assert opened(sealed) == "closed"


def test_what_is_nested_too_deep_is_unreadable() -> None:
    deep = b'{"body":"x","head":null,"meta":{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"
    sealed = sealing.box(
        deep, sealing.bound_to("parley message 2 for one", CONTEXT), ALICE, sealing.public_key(BOB), still
    )
    assert opened_by(BOB, sealed) == "unreadable"
    signature = sealing.sign(ALICE, sealing.bound_to("parley message 2 for several", CONTEXT) + deep)
    key = sealing.derive_key(KEY, "parley message 2 key", *CONTEXT)
    assert opened(sealing.lock(signature + deep, key, still)) == "unreadable"


def test_the_sealed_bytes_are_what_they_were() -> None:
    """Frozen: a row that was sent once keeps its bytes, and an older daemon must go on reading them."""
    one, several = (hashlib.sha256(each).hexdigest() for each in (for_one(), for_several()))
    assert one == "97c4894130dd61013861812f209531d9a583c730cc33527a2e5f8a1891e1e84f"
    assert several == "903b0268eed6322d2da6d61e448cd314177380be51d4779e1bc10ca9bff7cba8"
