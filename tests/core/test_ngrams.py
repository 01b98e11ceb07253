"""The default embedder: what it promises, and the vector that holds it to its version."""

import hashlib
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.models import Embedder, model_fingerprint
from parley.core.ngrams import IDENTITY, HashedNgrams, embed_text

FINGERPRINT = "6f368c636d3fb84f"
TEXTS = st.text(max_size=40)


def likeness(one: str, other: str) -> float:
    return sum(left * right for left, right in zip(embed_text(one), embed_text(other), strict=True))


def test_its_fingerprint_is_the_written_one() -> None:
    assert model_fingerprint(IDENTITY) == FINGERPRINT


def test_its_numbers_are_those_of_its_version() -> None:
    """If this fails, the model has changed: give it another version, or vectors of two machines will not agree."""
    text = "Straße 42: naïve café, 漢字 and\tcode_refs — src/app.py:120 🙂"
    packed = struct.pack(f"<{IDENTITY.dim}f", *embed_text(text))
    assert hashlib.sha256(packed).hexdigest() == "25af7880742ce02ea32bdc7522824f2ccdc4c4870d1ea2e3531fa05f5cd45555"


def test_the_steps_of_its_description_by_hand() -> None:
    """ " a " is one run of three characters: one component of length 1."""
    value = 0x811C9DC5
    for point in b" a ":
        value = (value ^ point) * 0x01000193 % 2**32
    value = (value ^ value >> 16) * 0x85EBCA6B % 2**32
    value = (value ^ value >> 13) * 0xC2B2AE35 % 2**32
    value ^= value >> 16
    expected = [0.0] * 384
    expected[(value >> 1) % 384] = 1.0 if value & 1 else -1.0
    assert embed_text("A") == expected


@given(TEXTS)
def test_a_vector_has_its_size_and_a_length_of_1_or_0(text: str) -> None:
    vector = embed_text(text)
    assert len(vector) == IDENTITY.dim
    assert vector == list(struct.unpack("<384f", struct.pack("<384f", *vector)))
    length = math.fsum(number * number for number in vector)
    assert length == pytest.approx(1.0, abs=1e-5) if any(vector) else not length


@pytest.mark.parametrize("blank", ["", " ", "\n\t  "])
def test_a_blank_text_is_the_zero_vector(blank: str) -> None:
    assert embed_text(blank) == [0.0] * IDENTITY.dim


def test_case_and_white_space_make_no_difference() -> None:
    assert embed_text("The  STRASSE\nis long ") == embed_text("the straße is long")


@given(st.lists(TEXTS, max_size=4))
def test_a_text_has_one_vector_whatever_else_is_embedded_with_it(texts: list[str]) -> None:
    embedder: Embedder = HashedNgrams()
    assert embedder.embed(texts) == [embed_text(text) for text in texts]


def test_other_forms_of_the_same_words_are_nearer_than_other_words() -> None:
    question = "the migration of the users table fails"
    near = ("users table migration failed again", "migrating table users: failure")
    far = ("the weather is nice today", "please review the login page", "le chat est noir")
    assert min(likeness(question, text) for text in near) > 1.5 * max(likeness(question, text) for text in far)
