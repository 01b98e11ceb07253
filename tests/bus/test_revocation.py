"""Statements of revocations: whatever arrives in whatever order, nothing is un-revoked."""

import itertools
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.bus import NOTHING_REVOKED, Fingerprint, Revocations, decode_statement, fingerprint_of, state
from parley.bus.blocks import block
from parley.bus.revocation import TAG, Statement
from parley.bus.signed import Signed, sign
from parley.core import limits, sealing
from parley.core.bus_errors import OtherUser, RevocationsFull, StatementInvalid
from parley.core.sealing import public_key
from tests.bus.agents import ADA_NAME, BOB_NAME, MALLORY, NOW, STRANGER, USER, USER_NAME

NAMES = [Fingerprint(bytes([number]) * 32) for number in range(6)]


def stated(*names: Fingerprint, generation: int = 0, at: int = NOW) -> Signed[Statement]:
    value = Statement(generation, tuple(sorted(each.hex() for each in names)), at, public_key(USER).hex())
    return sign(value, TAG, USER)


def all_of(*statements: Signed[Statement]) -> Revocations:
    return reduce(Revocations.merge, statements, NOTHING_REVOKED)


def test_a_statement_revokes_what_was_revoked_before_and_more() -> None:
    first = all_of(state(USER, NOTHING_REVOKED, [ADA_NAME], next_generation=False, now_ms=NOW))
    second = first.merge(state(USER, first, [BOB_NAME], next_generation=True, now_ms=NOW + 1))
    assert (second.generation, second.revoked) == (1, {ADA_NAME, BOB_NAME})
    assert [each.value.stated_at_ms for each in second.statements] == [NOW + 1], "the newest wins"


def test_an_older_statement_changes_nothing() -> None:
    newest = all_of(stated(ADA_NAME, BOB_NAME, generation=2))
    for older in (stated(ADA_NAME, generation=2), stated(ADA_NAME, BOB_NAME, generation=1), stated(generation=2)):
        assert newest.merge(older) is newest


def test_two_that_say_the_same_at_different_times_are_one() -> None:
    known = all_of(stated(ADA_NAME))
    assert known.merge(stated(ADA_NAME, at=NOW + 5)) is known


def test_statements_of_a_restored_key_are_both_kept_until_one_covers_them() -> None:
    """A backup of the user key knows nothing of what was revoked since; its next statement covers less."""
    apart = all_of(stated(ADA_NAME, generation=1), stated(BOB_NAME))
    assert (apart.generation, apart.revoked, len(apart.statements)) == (1, {ADA_NAME, BOB_NAME}, 2)
    joined = apart.merge(state(USER, apart, next_generation=False, now_ms=NOW))
    assert joined[:2] == apart[:2]
    assert len(joined.statements) == 1


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.integers(0, 3)), max_size=4))
def test_the_order_of_arrival_does_not_matter(parts: list[tuple[set[Fingerprint], int]]) -> None:
    statements = [stated(*names, generation=generation) for names, generation in parts]
    found = [all_of(*order) for order in itertools.permutations(statements)]
    for each in found:
        assert each.generation == max((generation for _, generation in parts), default=0)
        assert each.revoked == set().union(*(names for names, _ in parts))
        assert {one.text for one in each.statements} == {one.text for one in found[0].statements}
        for one, other in itertools.permutations(each.statements, 2):
            assert not one.value.covers(other.value)
    for one, other in itertools.pairwise(found):
        assert all_of(*one.statements, *other.statements)[:2] == one[:2]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.integers(0, 3)), max_size=6))
def test_what_was_revoked_stays_revoked(parts: list[tuple[set[Fingerprint], int]]) -> None:
    known = NOTHING_REVOKED
    for names, generation in parts:
        later = known.merge(stated(*names, generation=generation))
        assert later.revoked >= known.revoked
        assert later.generation >= known.generation
        known = later


def test_a_statement_survives_its_journey() -> None:
    made = stated(ADA_NAME, generation=3)
    assert decode_statement(made.encode(), user=USER_NAME) == made


def test_another_users_statement_is_refused() -> None:
    foreign = state(STRANGER, NOTHING_REVOKED, [ADA_NAME], next_generation=True, now_ms=NOW).encode()
    with pytest.raises(OtherUser) as refusal:
        decode_statement(foreign, user=USER_NAME)
    assert refusal.value.details == {"user": fingerprint_of(public_key(STRANGER)).hex()}
    assert decode_statement(foreign).value.user == public_key(STRANGER).hex()


def test_a_statement_in_another_users_name_is_refused() -> None:
    value = stated(ADA_NAME).value
    with pytest.raises(StatementInvalid, match="not signed"):
        decode_statement(sign(value, TAG, MALLORY).encode(), user=USER_NAME)


def test_every_byte_of_a_statement_matters() -> None:
    whole = stated(ADA_NAME).encode()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        with pytest.raises(StatementInvalid):
            decode_statement(changed, user=USER_NAME)
    for length in range(len(whole)):
        with pytest.raises(StatementInvalid):
            decode_statement(whole[:length], user=USER_NAME)


@settings(max_examples=200)
@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda tail: stated().encode()[:80] + tail))
def test_bytes_that_are_no_statement_raise_nothing_else(data: bytes) -> None:
    with pytest.raises(StatementInvalid):
        decode_statement(data)


ONE, TWO = ("11" * 32, "22" * 32)


@pytest.mark.parametrize(
    ("revoked", "sound"),
    [
        ('["bb"]', False),
        (f'["{ONE.upper().replace("1", "A")}"]', False),
        (f'["{TWO}","{ONE}"]', False),
        (f'["{ONE}","{ONE}"]', False),
        (f'["{ONE}","{TWO}"]', True),
        ("[]", True),
    ],
)
def test_revoked_fingerprints_are_sorted_fingerprints(revoked: str, sound: bool) -> None:
    text = f'{{"generation":0,"revoked":{revoked},"stated_at_ms":0,"user":"{public_key(USER).hex()}"}}'.encode()
    data = block(text) + sealing.sign(USER, TAG + text)
    if sound:
        assert decode_statement(data)
    else:
        with pytest.raises(StatementInvalid):
            decode_statement(data)


def test_there_is_a_bound_on_keys_that_are_revoked_one_by_one() -> None:
    many = [Fingerprint(number.to_bytes(32)) for number in range(limits.BUS_REVOKED_MAX)]
    full = all_of(state(USER, NOTHING_REVOKED, many, next_generation=False, now_ms=NOW))
    assert decode_statement(full.statements[0].encode()).value.revoked[0] == many[0].hex()
    with pytest.raises(RevocationsFull):
        state(USER, full, [ADA_NAME], next_generation=False, now_ms=NOW)
    assert state(USER, full, next_generation=True, now_ms=NOW).value.generation == 1, "everybody can still be revoked"


def test_there_is_a_bound_on_statements_of_which_none_covers_another() -> None:
    many = [stated(Fingerprint(bytes([number]) * 32)) for number in range(limits.BUS_STATEMENTS_MAX + 1)]
    full = all_of(*many[:-1])
    with pytest.raises(RevocationsFull):
        full.merge(many[-1])
    assert full.merge(state(USER, full, [ADA_NAME], next_generation=False, now_ms=NOW)).revoked > full.revoked
