"""Building silver in the driver itself, by the pure fold, where news are so few that Spark would take longer.

It does only what is beyond doubt: at the first event that might have to be refused, or that changes rows which it does
not name, it stops before anything is written, and Spark judges and folds.
"""

from parley.pipeline.silver.inline.building import INLINE_EVENTS, Built, build_inline

__all__ = ["INLINE_EVENTS", "Built", "build_inline"]
