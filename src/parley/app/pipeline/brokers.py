"""What the pipeline's commands do with brokers; none of it needs Spark."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from parley.pipeline.brokers.bronze_deliveries import observe_deliveries
from parley.pipeline.brokers.bronze_messages import take_messages
from parley.pipeline.brokers.gold import count_deliveries
from parley.pipeline.brokers.members import take_members
from parley.pipeline.brokers.silver import build_mesh_silver
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.lake import Lake
from parley.pipeline.lake.catalogue.mesh import DELIVERY_TIMES
from parley.pipeline.progress import Progress


@dataclass(slots=True)
class BrokersTaken:
    """What was taken in, over one run or several."""

    messages: int = 0
    deliveries: int = 0
    """That were found changed."""
    commits: int = 0
    conflicts: int = 0
    cursors: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    problems: list[str] = field(default_factory=list[str])

    def add(self, later: "BrokersTaken") -> None:
        """Counts a later run in, and keeps how it is after it."""
        self.messages += later.messages
        self.deliveries += later.deliveries
        self.commits += later.commits
        self.conflicts += later.conflicts
        self.cursors = later.cursors
        self.problems = list(dict.fromkeys([*self.problems, *later.problems]))


def take_brokers(lake: Lake, brokers: Sequence[BrokerRef], progress: Progress) -> BrokersTaken:
    """Takes in the messages that are new and who is in the meshes, and looks at all deliveries once."""
    if not brokers:
        return BrokersTaken()
    with progress.stage("brokers", "messages") as stage:
        taken = take_messages(lake, brokers, progress=stage.tell)
    with progress.stage("deliveries"):
        take_members(lake, brokers)
        seen = observe_deliveries(lake, brokers)
    changed = sum(each.changed for each in seen.values())
    return BrokersTaken(taken.messages, changed, taken.commits, taken.conflicts, taken.cursors, taken.problems)


def build_mesh(lake: Lake) -> dict[str, Any]:
    """Brings the tables that follow from brokers up to bronze; nothing is done in a lake without any."""
    built = build_mesh_silver(lake)
    counted = count_deliveries(lake)
    if counted is not None:
        built.tables[DELIVERY_TIMES.name] = counted
    return asdict(built)
