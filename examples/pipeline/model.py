"""A model that plugs into `parley pipeline embed`: how much each letter of the alphabet is used.

Usage: parley pipeline embed --model examples/pipeline/model.py:Letters
"""

import math
from collections.abc import Sequence

from parley.core.models import ModelIdentity

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Letters:
    """Its identity says everything that changes its numbers; raise the version with each change."""

    identity = ModelIdentity(provider="example", model="letters", model_version="1", dim=len(LETTERS))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each text, or of zeros for a text without letters."""
        return [self._embed_one(text.lower()) for text in texts]

    def _embed_one(self, text: str) -> list[float]:
        counts = [text.count(letter) for letter in LETTERS]
        length = math.hypot(*counts) or 1.0
        return [count / length for count in counts]
