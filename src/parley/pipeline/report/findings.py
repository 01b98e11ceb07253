"""What a report tells, as plain values: everything in it is small, whatever the size of the lake.

An agent is taken for the same in all hubs by its name. Moments are milliseconds since 1970, UTC.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

Row = dict[str, Any]
Verdict = Literal["ok", "warn", "error", "unknown"]

BUCKETS: Final = (
    ("10s", 10_000),
    ("30s", 30_000),
    ("1m", 60_000),
    ("2m", 120_000),
    ("5m", 300_000),
    ("15m", 900_000),
    ("1h", 3_600_000),
    ("4h", 14_400_000),
    ("1d", 86_400_000),
    ("more", None),
)
"""How long an answer may take to be counted with the others that took about as long."""


class Check(NamedTuple):
    """One check of the lake or of its hubs, and how it came out."""

    name: str
    verdict: Verdict
    message: str


@dataclass(slots=True)
class Findings:
    """The tables of a report, each cut to what a page can show."""

    hubs: list[Row] = field(default_factory=list[Row])
    totals: Row = field(default_factory=dict[str, Any])
    grain: Literal["hour", "day"] = "day"
    timeline: list[Row] = field(default_factory=list[Row])
    """Messages per start and agent."""
    hours: list[Row] = field(default_factory=list[Row])
    """Messages per weekday, 0 for Monday, and hour."""
    agents: list[Row] = field(default_factory=list[Row])
    pairs: list[Row] = field(default_factory=list[Row])
    latencies: list[Row] = field(default_factory=list[Row])
    """How many answers took up to so long."""
    channels: list[Row] = field(default_factory=list[Row])
    busiest: list[Row] = field(default_factory=list[Row])
    stuck: list[Row] = field(default_factory=list[Row])
    unanswered: list[Row] = field(default_factory=list[Row])
    tasks: Row = field(default_factory=dict[str, Any])
    open_tasks: list[Row] = field(default_factory=list[Row])
    leases: list[Row] = field(default_factory=list[Row])
    health: list[Row] = field(default_factory=list[Row])
    """Events per start."""
    irregularities: list[Row] = field(default_factory=list[Row])
    quarantine: list[Row] = field(default_factory=list[Row])
    deliveries: list[Row] = field(default_factory=list[Row])
    """What became of deliveries, per mesh and priority."""
    checks: list[Check] = field(default_factory=list[Check])
