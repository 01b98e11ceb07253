"""base64url without padding."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.core.base64url import from_base64url, to_base64url


@settings(max_examples=50)
@given(st.binary(max_size=40))
def test_bytes_survive_the_journey(data: bytes) -> None:
    text = to_base64url(data)
    assert from_base64url(text) == data
    assert "=" not in text


def test_it_is_the_alphabet_that_needs_no_quoting() -> None:
    assert to_base64url(b"\xfb\xff\xfe") == "-__-"


@pytest.mark.parametrize("text", ["a", "ab c", "ab+/", "äbcd", "ab=c", "ab==", "abcde"])
def test_other_characters_and_a_cut_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_base64url(text)
