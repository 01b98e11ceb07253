"""Silver: typed tables of current state and of history, folded from bronze and kept up to date run by run."""

from parley.pipeline.silver.building import SilverReport, build_silver

__all__ = ["SilverReport", "build_silver"]
