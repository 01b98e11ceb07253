"""Canonical JSON: the cases of RFC 8785 and of the mesh contract, section 4.3."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.canonical import canonical_json, parse_strict
from parley.core.errors import InvalidInput

CORPUS: list[tuple[Any, str]] = [
    ({}, "{}"),
    ([], "[]"),
    (None, "null"),
    (True, "true"),
    ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
    ({"z": "é", "a": [1, 2]}, '{"a":[1,2],"z":"é"}'),
    # Keys are texts, never numbers: "10" sorts before "9".
    ({"10": 1, "9": 2}, '{"10":1,"9":2}'),
    ({"__proto__": 1}, '{"__proto__":1}'),
    # By UTF-16 code units: a surrogate pair (d83d) sorts before U+FB33.
    ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
    # Numbers as ECMAScript writes them.
    (1.0, "1"),
    (1e21, "1e+21"),
    (1e-7, "1e-7"),
    (-0.0, "0"),
    (0.1, "0.1"),
    (333333333.33333329, "333333333.3333333"),
    (1e30, "1e+30"),
    (4.50, "4.5"),
    (2e-3, "0.002"),
    (2**53 - 1, "9007199254740991"),
    # Only the quote, the backslash and the controls are escaped.
    ('"\\/', r'"\"\\/"'),
    ("\b\t\n\f\r", r'"\b\t\n\f\r"'),
    ("\x00\x0f\x1f", r'"\u0000\u000f\u001f"'),
    ("\x7f\u2028é€😀", '"\x7f\u2028é€😀"'),
    ({"literals": [None, True, False]}, '{"literals":[null,true,false]}'),
]


@pytest.mark.parametrize(("value", "text"), CORPUS)
def test_each_value_has_its_one_text(value: Any, text: str) -> None:
    assert canonical_json(value) == text.encode()


@pytest.mark.parametrize(
    "value",
    [
        2**53,
        -(2**53),
        10**30,
        1e16,
        [{"a": -9007199254740992.0}],
        float("nan"),
        float("inf"),
        "\ud800",
        {"\udfff": 1},
        {1: 2},
    ],
)
def test_what_json_cannot_hold_exactly_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        canonical_json(value)


def test_bottomless_nesting_is_refused() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidInput):
        canonical_json(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not 2**53 <= abs(number) < 1e21)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_canonical_text_is_json_for_the_same_value_and_a_fixed_point(value: Any) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers(0, 9), min_size=2, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, int], rng: Any) -> None:
    keys = list(value)
    rng.shuffle(keys)
    assert canonical_json({key: value[key] for key in keys}) == canonical_json(value)


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '[{"b":{"c":1,"c":1}}]'])
def test_strict_parsing_refuses_a_repeated_key(text: str) -> None:
    with pytest.raises(InvalidInput, match="repeats a key"):
        parse_strict(text)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "{", "", b"\xff", "[" * 200_000])
def test_strict_parsing_refuses_what_is_not_json(text: str | bytes) -> None:
    with pytest.raises(InvalidInput, match="not valid JSON"):
        parse_strict(text)


def test_strict_parsing_reads_json() -> None:
    assert parse_strict(b'{"a":[1,null,"\xc3\xa9"]}') == {"a": [1, None, "é"]}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_list_of_texts_is_written_as_it_is_inside_of_another_value(texts: list[str]) -> None:
    assert canonical_json({"": texts}) == b'{"":' + canonical_json(texts) + b"}"


def test_a_text_of_every_kind_of_character_is_written_the_same_alone_and_in_a_list() -> None:
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x10000), 0x1F600, 0x10FFFF)))
    assert canonical_json([everything]) == b"[" + canonical_json(everything) + b"]"


def test_a_list_with_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidInput):
        canonical_json(["\ud800"])
