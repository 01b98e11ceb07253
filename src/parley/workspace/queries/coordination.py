"""How many agents are here, and how much they have to do, by what is written down."""

from typing import Any, Final

import apsw

from parley.wire.answers import Coordination

_COUNTS: Final = (
    "SELECT (SELECT count(*) FROM agents WHERE state = 'active'), (SELECT count(*) FROM tasks WHERE status = 'open'),"
    " (SELECT count(*) FROM tasks WHERE status = 'claimed'), (SELECT count(*) FROM leases WHERE status = 'active')"
)


def count_coordination(connection: apsw.Connection) -> Coordination:
    """One row of counts, each served by an index."""
    row: Any = connection.execute(_COUNTS).fetchone()
    return Coordination(*row)
