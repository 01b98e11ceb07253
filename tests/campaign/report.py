"""How a campaign went, in the form in which it is printed at the end."""

import time
from dataclasses import dataclass, field
from typing import Any

VIOLATIONS_SHOWN = 20


@dataclass
class Report:
    """``violations`` name the runs that show them again; ``control`` is what the broken variant was caught at."""

    name: str
    seed: int
    runs: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    control: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @property
    def passed(self) -> bool:
        """Nothing was violated, and the control shows that a violation would have been seen."""
        return not self.violations and bool(self.control) and self.runs > 0

    def summary(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "runs": self.runs,
            "seed": self.seed,
            "seconds": round(time.monotonic() - self.started, 1),
            **self.facts,
            "violations": len(self.violations),
            "first_violations": self.violations[:VIOLATIONS_SHOWN],
            "control_found": self.control[0] if self.control else None,
        }
