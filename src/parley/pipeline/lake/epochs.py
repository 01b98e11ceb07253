"""Epochs: which of the histories that a hub had the rows of a table are of.

A hub that is restored from a backup gives ids once more, to other events. So the ids that a table has reached do not
tell by themselves which events they were. Beside them every table that holds hubs keeps each hub's epoch, a cursor like
any other; it is 1 where nothing is kept. Bronze raises it when the hub was restored, and for all hubs when the table
itself was. A table whose epoch of a hub is not that of bronze was built from what is no longer there.
"""

from collections.abc import Mapping
from typing import Final

from parley.pipeline.lake.commit import Step

EPOCH_PREFIX: Final = "parley.epoch."
RESTORES: Final = "parley.restores"
"""How often a table was set back to an earlier version."""
FIRST_EPOCH: Final = 1
FORMAT_WITH_EPOCHS: Final = 2
"""The format of a lake in which a hub has another epoch than the first: who does not know epochs must not build on."""


def epochs_in(cursors: Mapping[str, int]) -> dict[str, int]:
    """The epochs that a table's cursors tell, of the hubs that ever had another than the first."""
    return {
        name.removeprefix(EPOCH_PREFIX): epoch
        for name, epoch in cursors.items()
        if name.startswith(EPOCH_PREFIX) and epoch > 0
    }


def epoch_of(cursors: Mapping[str, int], db_id: str) -> int:
    """The epoch of a hub."""
    return cursors.get(EPOCH_PREFIX + db_id) or FIRST_EPOCH


def epoch_step(cursors: Mapping[str, int], db_id: str, reached: int) -> Step:
    """The way of a hub to another epoch."""
    return Step(EPOCH_PREFIX + db_id, cursors.get(EPOCH_PREFIX + db_id), reached)
