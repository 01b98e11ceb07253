"""Holding something for a while: a claim of a task, or a lease of paths.

A hold has a holder, an end and a generation. The generation grows whenever the thing is taken, so it is a fencing
token: whoever took it later has a larger one, and what an earlier holder still does with its smaller one is refused.
The end is judged by one clock, the hub's; a hold is live before its end and over from that millisecond on, whether or
not anybody has written that down yet.
"""

from typing import Literal, NamedTuple

Loss = Literal["not_held", "expired", "other_holder", "other_generation"]
"""Why somebody does not hold a thing: nobody does, not any longer, another does, or they took it again since."""


class Hold(NamedTuple):
    """Who holds a thing. Times are ISO 8601 in UTC with milliseconds, so that their text sorts as they do."""

    holder: str | None
    generation: int
    expires_at: str | None


def is_live(hold: Hold, now: str) -> bool:
    """Whether somebody holds it at this time."""
    return hold.holder is not None and hold.expires_at is not None and now < hold.expires_at


def loss_of(hold: Hold, *, holder: str, generation: int, now: str) -> Loss | None:
    """Why the caller may not act as the holder, or None if it may."""
    if hold.holder is None:
        return "not_held"
    if hold.holder != holder:
        return "other_holder"
    if hold.generation != generation:
        return "other_generation"
    return None if is_live(hold, now) else "expired"
