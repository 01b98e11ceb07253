"""Two connections between the same two agents, and which one both keep.

Each side numbers the connections that it dials and takes, in that order, and says the number in its hello. So both can
tell whether one of them had been lost when the other was dialled. If neither had, both dialled at once, and the
connection stays that the agent with the smaller fingerprint dialled. Both sides come to the same answer.
"""

from typing import NamedTuple


class Rival(NamedTuple):
    """A connection as one side knows it."""

    dialled: bool
    """Whether this side dialled it."""
    ours: int
    """The number that this side gave it."""
    theirs: int
    """The number that the other side gave it."""
    instance: bytes
    """Which run of the other side it leads to."""


def keeps_new(old: Rival, new: Rival, *, we_are_smaller: bool) -> bool:
    """Whether the new connection takes the place of the old one."""
    if old.instance != new.instance:
        return True  # the other side has started again
    if old.dialled and new.dialled:
        return True  # this side dials only what it has lost
    if not old.dialled and not new.dialled:
        return new.theirs > old.theirs  # and so does the other side
    dialled, taken = (old, new) if old.dialled else (new, old)
    if taken.theirs > dialled.theirs:
        return taken is new  # the other side dialled after it had taken ours, and lost it
    if dialled.ours > taken.ours:
        return dialled is new  # this side did
    return (dialled if we_are_smaller else taken) is new
