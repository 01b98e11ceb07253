"""How many events one commit of bronze takes: as many as keep every core of the cluster at work for a few seconds.

A round is divided into tasks of equal size, so with more cores it has to be larger, or most of them would have nothing
to do. It costs about the same time on any number of them, and a kill costs no more than that time.

What bounds it is the driver. It holds the list of the files that the tasks have written and writes it into the table's
log, and how many files come of an event nobody knows beforehand: a task writes one for each day of its stretch of a
log. So the first round of a run is small, and each of the next is a few times as large as the one before, as long as
the files of that one allow it and until there is enough for all cores.
"""

from dataclasses import dataclass
from typing import Final

from parley.pipeline.source.ranges import RANGE_EVENTS

TASKS_PER_CORE: Final = 4
"""So many that a core which is done early finds another task, and that starting the job does not show."""
GROWTH: Final = 4
"""By how much a round may be larger than the one before it: the next hub may have more days in as many events."""
ROUND_FILES: Final = 10_000
"""Files in one commit: 16 MB of the table's log, and 120 MB of the driver's memory while it is written."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """The sizes of rounds, in events."""

    first: int = 8 * RANGE_EVENTS
    """What the first round takes, and the least that any other does: it keeps two cores at work."""
    task: int = RANGE_EVENTS
    growth: int = GROWTH
    files_max: int = ROUND_FILES

    def following(self, size: int, files: int, cores: int) -> int:
        """How many events the round takes that comes after one of this size, which wrote so many files."""
        by_cores = cores * TASKS_PER_CORE * self.task
        by_files = size * self.files_max // max(files, 1)
        return max(min(by_cores, by_files, size * self.growth), self.first)
