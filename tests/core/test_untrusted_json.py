"""Whatever somebody else writes, decoding it gives a value or one kind of error, in time that its length bounds."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX, JSON_DOCUMENT_DEPTH_MAX
from parley.core.untrusted_json import UnreadableJson, decode, decode_by, is_deeper

MOST = JSON_DOCUMENT_DEPTH_MAX


class Form(msgspec.Struct):
    body: str = ""
    meta: dict[str, Any] = {}


def depth_of(value: object) -> int:
    """By the book, for values that are small enough for it."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def outcome(data: bytes | str, kind: type[Any] = object) -> bool:
    """Whether it can be decoded; what else than ``DecodeError`` is raised fails the test."""
    try:
        value = decode(data, kind)
    except msgspec.DecodeError:
        return False
    msgspec.json.encode([[[value]]])  # and passed on inside of something else
    return True


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('[]{}"\\ \0é', max_size=6)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner))


@given(VALUES, st.integers(0, 6))
def test_depth_is_that_of_the_value(value: Any, depth: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert is_deeper(text.encode("utf-8", "surrogatepass"), depth) == (depth_of(value) > depth)


@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}"), ('[{"]": "}",  "a" :', "}]")])
def test_the_limit_is_met_exactly(start: str, end: str) -> None:
    levels = start.count("[") + start.count("{")
    times = MOST // levels
    assert outcome(start * times + "1" + end * times)
    assert not outcome(start * (times + 1) + "1" + end * (times + 1))
    assert not outcome(start * (times + 1) + "1" + end * (times + 1), Form)


def test_brackets_in_strings_are_no_levels() -> None:
    assert decode(json.dumps({"body": '[{"' * 1_000 + "\\"}), Form).body == '[{"' * 1_000 + "\\"
    assert decode(json.dumps([[]] * 5_000), object) == [[]] * 5_000


HOSTILE: dict[str, bytes] = {
    "deep arrays": b"[" * 1_000_000,
    "deep arrays that end": b"[" * 200_000 + b"]" * 200_000,
    "deep objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "deep where nobody looks": b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "deep behind a string without an end": b'["' + b'\\"[' * 300_000,
    "quotes that never close": b'[[[["' * 200_000,
    "backslashes": b'"' + b"\\" * 1_000_001,
    "only ends": b"]" * 1_000_000 + b"[" * 100,
    "a huge number": b"9" * 1_000_000,
    "a huge negative number": b"-" + b"9" * 4_400,
    "a huge fraction": b"0." + b"9" * 1_000_000,
    "a huge exponent": b"1e" + b"9" * 10_000,
    "NaN": b"NaN",
    "Infinity": b"[-Infinity]",
    "half of a character": b'"\\ud800"',
    "the other half": b'"\\udc00x"',
    "half of a character as bytes": b'"\xed\xa0\x80"',
    "not UTF-8": b'{"body": "\xff"}',
    "UTF-16": '{"body": "é"}'.encode("utf-16"),
    "nothing": b"",
    "a NUL": b"\0",
}


@pytest.mark.parametrize("kind", [object, dict[str, Any], Form, list[str]])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_one_way(name: str, kind: type[Any]) -> None:
    data = HOSTILE[name]
    if not (name == "a huge fraction" and kind is object):  # which is merely a number near one
        assert not outcome(data, kind)
    text = data.decode("utf-8", "surrogateescape")
    outcome(text, kind)


def test_what_is_deep_again_and_again_costs_little_more_than_what_is_flat() -> None:
    """Anybody may send it, and a server looks at it on its event loop."""

    def cpu_seconds(text: bytes) -> float:
        taken: list[float] = []
        for _ in range(3):
            started = time.thread_time()
            assert not is_deeper(text, MOST)
            taken.append(time.thread_time() - started)
        return min(taken)

    levels = MOST - 1
    deep = b"[" + (b"[" * levels + b"]" * levels + b",") * 5_000 + b"0]"
    flat = b"[" + b"[]," * (len(deep) // 3) + b"0]"
    assert cpu_seconds(deep) < 5 * cpu_seconds(flat)


def test_what_is_only_odd_is_read() -> None:
    assert decode(b'{"body": "\\u0000", "body": "second"}', Form).body == "second"
    assert len(decode(b'{"body": "' + b"x" * 10_000_000 + b'"}', Form).body) == 10_000_000
    assert decode(b'{"meta": {"a": %s}}' % (b"9" * 400), Form).meta["a"] == int("9" * 400)


def test_more_than_anybody_sends_is_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.core.untrusted_json.JSON_BYTES_MAX", 10)
    assert decode(b'"12345678"', str) == "12345678"
    with pytest.raises(UnreadableJson, match="larger than 10 bytes"):
        decode(b'"123456789"', str)
    assert JSON_BYTES_MAX > 16 * 1024 * 1024


@pytest.mark.parametrize("error", [RecursionError, MemoryError, OverflowError, UnicodeDecodeError, ValueError])
def test_whatever_a_decoder_raises_is_one_error(error: type[Exception]) -> None:
    def fail(_: bytes) -> None:
        raise error("utf-8", b"", 0, 1, "why") if error is UnicodeDecodeError else error("why")

    with pytest.raises(msgspec.DecodeError, match="why"):
        decode_by(fail, b"{}")


def test_an_error_of_the_form_stays_what_it_is() -> None:
    with pytest.raises(msgspec.ValidationError, match="body"):
        decode(b'{"body": 1}', Form)


def test_a_document_has_room_for_metadata_and_what_it_is_wrapped_in() -> None:
    assert MOST >= JSON_DEPTH_MAX + 16


@given(st.binary(max_size=200) | st.text(max_size=200) | st.text('[]{}":,\\1eE+-.un ', max_size=300))
def test_noise_is_refused_or_read(data: bytes | str) -> None:
    for kind in (object, Form):
        outcome(data, kind)
