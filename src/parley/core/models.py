"""Embedding models: which one made a vector, and what one must do.

Vectors of two models cannot be compared, however alike the models' names are: another revision, another quantization
gives other numbers that look as good. So a vector never goes without the fingerprint of its model, the first half of
the SHA-256 of the identity's canonical JSON. A text that joins the parts by a colon would not do: a name may hold one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from parley.core.canonical import canonical_json
from parley.core.errors import InvalidInput
from parley.core.limits import MODEL_NAME_CHARS_MAX, VECTOR_DIM_MAX

FINGERPRINT_CHARS: Final = 16
"""64 bits in hexadecimal: short enough for the name of a table, and nobody has billions of models."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Everything that changes a model's numbers."""

    provider: str
    """Who makes it: ``parley``, ``openai``, ``sentence-transformers``."""
    model: str
    model_version: str
    """Its revision; ``unknown`` where its maker does not say."""
    dim: int
    """Numbers in a vector."""
    quantization: str = "float32"

    def __post_init__(self) -> None:
        # An embedder that plugs in says itself what it is, so nothing here is of the type that it should be.
        for name in ("provider", "model", "model_version", "quantization"):
            text: object = getattr(self, name)
            if not isinstance(text, str) or not 1 <= len(text) <= MODEL_NAME_CHARS_MAX or not text.isprintable():
                raise InvalidInput(
                    f"{name} of a model must be 1 to {MODEL_NAME_CHARS_MAX} printable characters", field=name
                )
        if type(self.dim) is not int or not 1 <= self.dim <= VECTOR_DIM_MAX:
            raise InvalidInput(f"dim of a model must be 1 to {VECTOR_DIM_MAX}", field="dim")


def model_fingerprint(identity: ModelIdentity) -> str:
    """The 16 hexadecimal characters that stand for this model wherever a vector is kept."""
    return hashlib.sha256(canonical_json(asdict(identity))).hexdigest()[:FINGERPRINT_CHARS]


class Embedder(Protocol):
    """A model that turns texts into vectors.

    The same text gives the same vector under one identity, whatever other texts it is embedded with; vectors have
    length 1, or are all zero for a text that says nothing to the model, so that their dot product is their likeness.
    """

    @property
    def identity(self) -> ModelIdentity:
        """What the model is. It does not change while the embedder lives."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector of ``identity.dim`` finite numbers for each text, in order."""
        ...
