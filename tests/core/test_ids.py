"""Ids sort in the order of their creation, whatever the clock does and whatever was in the file before."""

import re
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core import ids
from parley.core.ids import IdSource, base36, is_id, new_token, new_uuid

NOW = 1_767_225_600_000


def agentlip_id(prefix: str, now_ms: int) -> str:
    """An id as Agentlip makes it: the time in base 36 and eight random characters."""
    return prefix + base36(now_ms) + "".join(secrets.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(8))


@pytest.mark.parametrize("prefix", ids.PREFIXES)
def test_an_id_has_its_prefix_and_the_form_of_an_id(prefix: str) -> None:
    made = IdSource().new(prefix, NOW)
    assert re.fullmatch(re.escape(prefix) + "[0-9a-z]{16}", made)
    assert is_id(made)


@given(st.lists(st.integers(36**7, 36**8 - 1), min_size=2, max_size=60))
def test_ids_grow_under_any_jumps_of_the_clock(times: list[int]) -> None:
    """From 1972 to 2059, where the time has eight digits; beyond, only the integer key keeps the order."""
    source = IdSource()
    made = [source.new(ids.MESSAGE, now_ms) for now_ms in times]
    assert made == sorted(set(made))


@given(st.integers(NOW - 10**9, NOW + 10**9), st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20))
def test_ids_sort_after_those_of_an_adopted_agentlip_workspace(adopted_ms: int, jumps: list[int]) -> None:
    there = [agentlip_id(ids.MESSAGE, adopted_ms + offset) for offset in range(3)]
    source = IdSource({ids.MESSAGE: max(there)})
    made = [source.new(ids.MESSAGE, adopted_ms + jump) for jump in jumps]
    assert [*sorted(there), *made] == sorted([*there, *made])


def test_a_new_source_goes_on_above_the_largest_id_of_each_kind() -> None:
    first = IdSource()
    channel, message = first.new(ids.CHANNEL, NOW), first.new(ids.MESSAGE, NOW + 5)
    second = IdSource({ids.CHANNEL: channel, ids.MESSAGE: message})
    assert second.new(ids.MESSAGE, NOW) > message
    assert second.new(ids.CHANNEL, NOW - 10**6) > channel


def test_the_counter_carries_into_the_time_when_it_is_used_up() -> None:
    full = ids.MESSAGE + base36(NOW) + "zzzzzzzz"
    source = IdSource({ids.MESSAGE: full})
    following = source.new(ids.MESSAGE, NOW)
    assert following == ids.MESSAGE + base36(NOW + 1) + "00000000"
    assert following > full


@pytest.mark.parametrize(
    "foreign", ["msg_short", "msg_With-Dashes_and_more_text", "msg_ÄÖÜÄÖÜÄÖÜ", "msg_UPPERCASEUPPER"]
)
def test_a_foreign_id_does_not_disturb_the_source(foreign: str) -> None:
    assert IdSource({ids.MESSAGE: foreign}).new(ids.MESSAGE, NOW) == IdSource().new(ids.MESSAGE, NOW)


@given(st.integers(0, 2**64))
def test_base36_is_the_inverse_of_int(number: int) -> None:
    assert int(base36(number), 36) == number


@pytest.mark.parametrize("text", ["a", "A-z_9", "x" * 64])
def test_is_id_accepts(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", "x" * 65, "a b", "a\n", "é", "a/b", "a'--"])
def test_is_id_refuses(text: str) -> None:
    assert not is_id(text)


def test_gate_j_a_token_has_256_random_bits_as_64_hexadecimal_characters() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch("[0-9a-f]{64}", token) for token in tokens)


def test_an_identity_is_a_random_uuid() -> None:
    made = {new_uuid() for _ in range(50)}
    assert len(made) == 50
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", each) for each in made
    )
