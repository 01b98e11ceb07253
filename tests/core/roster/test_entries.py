"""Entries as bytes: one way to write each, every byte signed, and nothing that strangers send ends a reader."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput
from parley.core.limits import ROSTER_ENTRY_BYTES_MAX
from parley.core.roster import Refusal, apply, entries, read_entry
from tests.core.roster.town import Town, key_of

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def reason(data: bytes) -> str:
    refused = apply(Town().state, data)
    assert isinstance(refused, Refusal)
    return refused.reason


def test_an_entry_is_read_as_it_was_written() -> None:
    town = Town()
    data = town.entry("ada", "rename", entries.Rename("ada2"))
    entry = read_entry(data)
    assert (entry.n, entry.prev, entry.kind, entry.body) == (1, town.state.head, "rename", entries.Rename("ada2"))
    assert entry.hash == entries.entry_hash(data)


def test_every_changed_byte_is_noticed() -> None:
    town = Town()
    data = town.joining("bob", town.invite("ada"))
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert isinstance(apply(town.state, changed), Refusal), place


def test_an_entry_that_was_cut_short_or_continued_is_none() -> None:
    town = Town()
    data = town.entry("ada", "rename", entries.Rename("ada2"))
    assert all(isinstance(apply(town.state, data[:end]), Refusal) for end in range(len(data)))
    assert reason(data + b" ") == "not_canonical"


def test_there_is_one_way_to_write_an_entry() -> None:
    data = Town().entry("ada", "rename", entries.Rename("ada2"))
    value = json.loads(data)
    assert reason(json.dumps(value).encode()) == "not_canonical"
    assert (
        reason(json.dumps(value, sort_keys=False, separators=(",", ":"), indent=None).encode() + b"\n")
        == "not_canonical"
    )
    assert reason(canonical_json({**value, "more": 1})) == "malformed"
    assert reason(canonical_json({**value, "body": {"name": "ada2", "more": None}})) == "malformed"
    assert reason(data.replace(b'"n":1', b'"n":1.0')) == "not_canonical"
    assert reason(data.replace(b'"n":1', b'"n":1,"n":1')) == "not_canonical"


@pytest.mark.parametrize("missing", ["n", "prev", "kind", "by", "at", "body", "sig"])
def test_every_part_of_an_entry_is_there(missing: str) -> None:
    value = json.loads(Town().entry("ada", "rename", entries.Rename("ada2")))
    del value[missing]
    assert reason(canonical_json(value)) == "malformed"


@pytest.mark.parametrize(
    "part",
    [
        {"n": -1},
        {"n": "1"},
        {"n": 2**53},
        {"prev": "A" * 64},
        {"prev": "a" * 64 + "\n"},
        {"sig": ""},
        {"by": ""},
        {"by": "x" * 65},
        {"at": None},
        {"at": -1},
        {"body": []},
        {"body": {"name": "Ada"}},
        {"body": {"name": "ada\n"}},
        {"body": {"name": "a" * 33}},
        {"body": {"name": "ад"}},
        {"body": {"name": "-ada"}},
    ],
    ids=str,
)
def test_parts_of_a_wrong_form_are_refused(part: dict[str, object]) -> None:
    value = json.loads(Town().entry("ada", "rename", entries.Rename("ada2")))
    text = json.dumps({**value, **part}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert reason(text.encode()) in ("malformed", "not_canonical")


def test_an_unknown_kind_is_refused() -> None:
    value = json.loads(Town().entry("ada", "rename", entries.Rename("ada2")))
    assert reason(canonical_json({**value, "kind": "crown"})) == "unknown_kind"


def test_what_is_too_long_is_not_even_decoded() -> None:
    assert reason(b"[" * (ROSTER_ENTRY_BYTES_MAX + 1)) == "too_large"
    assert reason(b"[" * ROSTER_ENTRY_BYTES_MAX) == "not_canonical"
    members = [entries.Adopted(f"mem_{number}", key_of("x"), "x", "member") for number in range(60)]
    with pytest.raises(InvalidInput, match="at most"):
        Town().entry("ada", "adopt", entries.Adopt(members))


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")))
def test_whatever_comes_is_an_entry_or_a_refusal(data: bytes) -> None:
    assert isinstance(apply(TOWN.state, data), Refusal)
    assert isinstance(apply(None, data), Refusal)


@given(st.sampled_from(sorted(entries.BODIES)), JSON)
def test_whatever_a_body_says_is_read_or_refused(kind: str, body: object) -> None:
    value = json.loads(TOWN.entry("ada", "rename", entries.Rename("ada2")))
    text = json.dumps({**value, "kind": kind, "body": body}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert isinstance(apply(TOWN.state, text.encode("utf-8", "surrogatepass")), Refusal)


def test_every_kind_has_a_body_and_a_rule() -> None:
    from typing import get_args

    from parley.core.roster import rules

    assert set(entries.BODIES) == set(get_args(entries.Kind))
    assert set(rules._RULES) == set(entries.BODIES) - {"found"}
    for body in set(entries.BODIES.values()):
        fields = msgspec.structs.fields(body)
        assert all(each.required for each in fields), body


def test_a_commitment_fits_one_key_of_one_purpose_epoch_and_mesh() -> None:
    made = {
        entries.commitment(bytes([key]) * 32, purpose, epoch, mesh)
        for key in (1, 2)
        for purpose in ("mesh", "data")
        for epoch in (1, 2)
        for mesh in ("aa", "bb")
    }
    assert len(made) == 16


TOWN = Town()
