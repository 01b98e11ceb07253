"""A model for the tests: of two letters, which fails on request."""

from pathlib import Path

LETTERS = """
import os
from parley.core.models import ModelIdentity

class Letters:
    identity = ModelIdentity("tests", "letters", "1", 2)

    def embed(self, texts):
        return [self.one(text) for text in texts]

    def one(self, text):
        if text == "crash":
            os._exit(3)
        if text == "raise":
            raise ValueError("no")
        if text == "long":
            return [2.0, 0.0]
        a, b = text.count("a"), text.count("b")
        length = (a * a + b * b) ** 0.5 or 1.0
        return (a / length, b / length)
"""


def written(folder: Path, source: str = LETTERS) -> str:
    """Writes the model to a file; what ``--model`` calls it."""
    (folder / "letters.py").write_text(source)
    return f"{folder}/letters.py:Letters"
