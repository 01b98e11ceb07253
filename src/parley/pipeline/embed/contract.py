"""The lines between a task and the locked-in process of an embedder that plugs in."""

import msgspec


class Load(msgspec.Struct, frozen=True):
    """The first line that goes in: which module, in which file if it is no installed one, and the name in it."""

    entry: str
    path: str | None
    attribute: str


class Identity(msgspec.Struct, frozen=True):
    """What an embedder says that it is."""

    provider: str
    model: str
    model_version: str
    dim: int
    quantization: str = "float32"


class Texts(msgspec.Struct, frozen=True):
    """A line that goes in: what to embed."""

    texts: list[str]


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line that comes out: that it runs, what the embedder is, then one answer for each line of texts."""

    number: int
    identity: Identity | None = None
    vectors: list[list[float]] | None = None
    error: str | None = None
