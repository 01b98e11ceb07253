"""What a rule that was asked for comes to: its answer, and what follows from it for others.

It may concern their deliveries, their connections, or what they show. Whoever runs the rule passes that on once it is
committed.
"""

from typing import Any, NamedTuple

from parley.wire.broker import Notice


class Done(NamedTuple):
    """A method's result, and what follows from it for others."""

    result: dict[str, Any]
    woken: tuple[str, ...] = ()
    """Members for whom something may be due."""
    ended: tuple[str, ...] = ()
    """Members who are none any more; their connections are closed."""
    kicked: tuple[str, ...] = ()
    """Members whose connections are closed, and who stay members."""
    notices: tuple[Notice, ...] = ()
    """What all members of the mesh are told."""
    mesh_id: str = ""
