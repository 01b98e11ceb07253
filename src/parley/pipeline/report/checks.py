"""What a report says about the quality of the lake: what its own tables show, and what the last audit found.

The lake's own checks cost next to nothing and are done each time: bronze against its cursors, by the table's log alone,
then gaps, doubles, clocks and what was set aside, by the hubs' rows.

An audit leaves its summary in the lake: an object whose ``checks`` each have a ``name``, a ``verdict`` (``ok``,
``warn`` or ``error``) and a ``message``.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from parley.pipeline.lake.catalogue.bronze import CURSOR_PREFIX
from parley.pipeline.lake.holdings import read_holdings
from parley.pipeline.lake.place import Lake
from parley.pipeline.report import words
from parley.pipeline.report.findings import Check, Row, Verdict

AUDIT_FILE: Final = "audit.json"
_NO_AUDIT: Final = "No audit of this lake is known; `parley pipeline audit` compares the hubs with their logs."


def audit_path(lake: Lake) -> Path:
    """Where the summary of the last audit lies."""
    return lake.own / AUDIT_FILE


def all_checks(lake: Lake, hubs: list[Row]) -> list[Check]:
    """The audit's checks, then the lake's own."""
    return [*_audit_checks(audit_path(lake)), check_cursors(lake), *check_hubs(hubs)]


def _audit_checks(path: Path) -> list[Check]:
    try:
        said: Any = json.loads(path.read_bytes())
        return [Check(str(each["name"]), _verdict(each["verdict"]), str(each["message"])) for each in said["checks"]]
    except FileNotFoundError:
        return [Check("audit", "unknown", _NO_AUDIT)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [Check("audit", "unknown", f"The summary of the last audit cannot be read: {error}")]


def _verdict(said: object) -> Verdict:
    return said if said in ("ok", "warn", "error") else "unknown"  # type: ignore[return-value]


def check_cursors(lake: Lake) -> Check:
    """Whether bronze ends where its cursors stand, and has no more rows than ids."""
    held = read_holdings(lake, CURSOR_PREFIX)
    if held is None:
        return Check("cursors", "unknown", "A file of bronze lacks the statistics to count by.")
    wrong = [f"{db_id} {holding.problem}" for db_id, holding in sorted(held.items()) if holding.problem is not None]
    if wrong:
        return Check("cursors", "error", f"{words.count(len(wrong), 'hub')}: {wrong[0]}.")
    return Check("cursors", "ok", "What bronze holds of each hub ends where its cursor stands.")


def check_hubs(hubs: list[Row]) -> list[Check]:
    """What the events themselves show."""
    missing, gaps = _sum(hubs, "missing"), _sum(hubs, "gaps")
    jumps, furthest = _sum(hubs, "clock_jumps"), max((hub["back_ms_max"] for hub in hubs), default=0)
    doubled = sum(map(_doubled, hubs))
    untimed, aside = _sum(hubs, "untimed"), _sum(hubs, "quarantined")
    return [
        _check(
            "event ids", missing, "No id is missing.", f"{_many(missing, 'id')} missing in {words.count(gaps, 'gap')}."
        ),
        Check("doubles", "error", f"{_many(doubled, 'row')} there more than once.")
        if doubled
        else Check("doubles", "ok", "Every event is there once."),
        _check(
            "clocks",
            jumps,
            "Every event's time is at or after the one before it.",
            f"{words.count(jumps, 'time')} the clock ran backwards, at most {words.duration(furthest)}.",
        ),
        _check(
            "times", untimed, "Every event has a time.", f"{_many(untimed, 'event')} without a time that can be read."
        ),
        _check(
            "quarantine",
            aside,
            "No event was set aside.",
            f"{_many(aside, 'event')} set aside as malformed or unknown.",
        ),
    ]


def _doubled(hub: Row) -> int:
    """Rows beyond one for each id that is there."""
    there = hub["last_event_id"] - hub["first_event_id"] + 1 - hub["missing"]
    return max(hub["events"] - there, 0)


def _sum(hubs: Iterable[Row], column: str) -> int:
    return sum(hub[column] for hub in hubs)


def _many(amount: int, what: str) -> str:
    return f"{words.count(amount, what)} {'is' if amount == 1 else 'are'}"


def _check(name: str, found: int, fine: str, odd: str) -> Check:
    return Check(name, "warn", odd) if found else Check(name, "ok", fine)
