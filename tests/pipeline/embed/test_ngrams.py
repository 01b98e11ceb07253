"""Many texts at once give the very numbers that one text gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.ngrams import IDENTITY, embed_text
from parley.pipeline.embed import ngrams
from parley.pipeline.embed.ngrams import embed_texts

WORDS = ["a", "İstanbul", "straße", "漢字", "🙂🙂", "code_ref", "src/app.py:120", "\ud800"]


def one_by_one(texts: list[str]) -> np.ndarray:
    return np.array([embed_text(text) for text in texts], dtype=np.float32).reshape(len(texts), IDENTITY.dim)


@given(st.lists(st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join), max_size=6))
def test_they_agree_to_the_last_bit(texts: list[str]) -> None:
    assert embed_texts(texts).tobytes() == one_by_one(texts).tobytes()


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
def test_how_many_are_worked_on_together_makes_no_difference(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(ngrams, "CODE_POINTS_AT_ONCE", 50 * at_once)
    monkeypatch.setattr(ngrams, "TEXTS_AT_ONCE", at_once)
    texts = [f"message {number} " * (number % 5) for number in range(40)]
    assert embed_texts(texts).tobytes() == one_by_one(texts).tobytes()


def test_no_texts_give_no_rows() -> None:
    assert embed_texts([]).shape == (0, IDENTITY.dim)
