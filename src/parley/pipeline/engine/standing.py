"""How far each table has been built of each hub: all cursors of a table, read once for the version that is pinned.

Every table is a function of the events of a hub up to a mark, of the epoch that they belong to, and of the rules. So
these three are all that a table has to remember to know what is missing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX, EVENTS
from parley.pipeline.lake.commit import Step, ensure_table
from parley.pipeline.lake.cursors import read_cursors
from parley.pipeline.lake.epochs import epoch_of, epoch_step
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.tables import Table

MARK_PREFIX: Final = "parley.built."
RULES: Final = "parley.rules"


@dataclass(frozen=True, slots=True)
class Goal:
    """What bronze holds of a hub: the tables are to follow from just that."""

    mark: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One table at one version."""

    table: Table
    version: int
    cursors: Mapping[str, int]

    @classmethod
    def of(cls, lake: Lake, table: Table) -> Self:
        """The table as it is now; made if it is not there."""
        version = ensure_table(lake, table).version()
        return cls(table, version, read_cursors(lake, table, version))

    def behind(self, goals: Mapping[str, Goal], rules: int) -> set[str]:
        """The hubs whose rows do not follow from what bronze holds, by these rules."""
        known = {name.removeprefix(MARK_PREFIX) for name in self.cursors if name.startswith(MARK_PREFIX)}
        if self.cursors.get(RULES) != rules:
            return known | goals.keys()
        return {db_id for db_id in known | goals.keys() if self.reached(db_id) != goals.get(db_id)}

    def reached(self, db_id: str) -> Goal | None:
        """What the rows of a hub follow from."""
        mark = self.cursors.get(MARK_PREFIX + db_id)
        return None if mark is None else Goal(mark, epoch_of(self.cursors, db_id))

    def steps(self, goals: Mapping[str, Goal], hubs: Iterable[str], rules: int) -> list[Step]:
        """The cursors that move with the rows of these hubs."""
        steps = [Step(RULES, self.cursors.get(RULES), rules)]
        for db_id in sorted(hubs):
            goal = goals.get(db_id, Goal(0, epoch_of(self.cursors, db_id)))
            steps.append(Step(MARK_PREFIX + db_id, self.cursors.get(MARK_PREFIX + db_id), goal.mark))
            if goal.epoch != epoch_of(self.cursors, db_id):
                steps.append(epoch_step(self.cursors, db_id, goal.epoch))
        return steps


def goals_of(bronze: Standing) -> dict[str, Goal]:
    """What bronze holds of every hub."""
    return {
        name.removeprefix(CURSOR_PREFIX): Goal(mark, epoch_of(bronze.cursors, name.removeprefix(CURSOR_PREFIX)))
        for name, mark in bronze.cursors.items()
        if name.startswith(CURSOR_PREFIX)
    }


def stand_of_bronze(lake: Lake) -> Standing:
    """Where bronze stands."""
    return Standing.of(lake, EVENTS)
