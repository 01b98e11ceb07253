"""The tables of hubs: silver, and gold from it."""

from typing import Any, Final

from parley.core.settings import PipelineSettings
from parley.pipeline.engine import gold, silver
from parley.pipeline.engine.spec import Plan

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS

PLAN: Final = Plan((*silver.SPECS, *gold.SPECS), (*silver.PARTS, *gold.PARTS))


def settings_of(settings: PipelineSettings) -> dict[str, Any]:
    """What the statements name."""
    return {
        "asks": silver.ASKS,
        "window_ms": round(settings.answer_window_minutes * MINUTE_MS),
        "stuck_ms": round(settings.stuck_after_hours * HOUR_MS),
    }
