"""Caveats: what a certificate allows, as limits that can only grow narrower from one certificate to the next.

They are a meet-semilattice: ``meet`` is the most that two of them allow together, ``EVERYTHING`` allows all, and
``is_within`` is its order. Each is enforced: generation and end by ``chain.verify``, topics by
``Authority.require_topic``, calls by whoever admits an envelope, for each certificate of the chain that counts them.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from parley.core import limits

Time = Annotated[int, Meta(ge=0, le=limits.TIME_MS_MAX)]
Count = Annotated[int, Meta(ge=0, le=limits.VERSION_MAX)]
Topic = Annotated[
    str, Meta(min_length=1, max_length=limits.BUS_TOPIC_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]*(?![\s\S])")
]


class Caveats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None means no limit. ``topics`` is sorted and names each once; an empty one allows no topic at all."""

    calls_max: Count | None = None
    """Envelopes that one peer accepts from the agent, over the certificate's whole life."""
    expires_at_ms: Time | None = None
    """The first moment at which it holds no longer."""
    generation: Count | None = None
    """The last generation in which it holds; the user's statements begin new ones."""
    topics: Annotated[tuple[Topic, ...], Meta(max_length=limits.BUS_TOPICS_MAX)] | None = None
    """The topics on which the agent may ask, answer, publish and listen."""

    def __post_init__(self) -> None:
        if self.topics is not None and not all(before < after for before, after in pairwise(self.topics)):
            raise ValueError("topics must be sorted and distinct")

    def meet(self, other: "Caveats") -> "Caveats":
        """What both allow."""
        return Caveats(
            calls_max=_least(self.calls_max, other.calls_max),
            expires_at_ms=_least(self.expires_at_ms, other.expires_at_ms),
            generation=_least(self.generation, other.generation),
            topics=_common(self.topics, other.topics),
        )

    def is_within(self, other: "Caveats") -> bool:
        """Whether these allow nothing that the other ones do not."""
        return self.meet(other) == self


EVERYTHING: Final = Caveats()
"""No limit at all."""


def topic_names(topics: Iterable[str]) -> tuple[str, ...]:
    """The topics as caveats hold them."""
    return tuple(sorted(set(topics)))


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _common(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return topic_names({*one} & {*other})
