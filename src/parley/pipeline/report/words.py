"""Numbers, times and names as a reader of the report sees them."""

import re
from datetime import UTC, datetime
from html import escape
from typing import Final

NAME_CHARS_MAX: Final = 60
_INVISIBLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def name(text: object) -> str:
    """A name or title that somebody chose, on one line and not too long. It is still to be escaped."""
    plain = _INVISIBLE.sub(" ", "" if text is None else str(text)).strip()
    return plain if len(plain) <= NAME_CHARS_MAX else plain[: NAME_CHARS_MAX - 1].rstrip() + "…"


def drawn(text: object) -> str:
    """A name as plotly draws it: it knows a few tags in labels, so that what looks like one is written as text."""
    return escape(name(text), quote=False)


def number(value: float | None) -> str:
    """``12,345``; a dash where nothing is known."""
    return "–" if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """``4.2 %``; a dash of nothing."""
    return "–" if value is None else f"{value * 100:.1f} %"


def duration(ms: float | None) -> str:
    """``3.5 min``: one unit, two digits that count."""
    if ms is None:
        return "–"
    for size, unit in _UNITS:
        if ms >= size:
            amount = ms / size
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f}".removesuffix(".0") + f" {unit}"
    return f"{ms:.0f} ms"


def moment(ms: int | None) -> str:
    """``2026-03-02 09:14``, UTC."""
    return "–" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def day(ms: int) -> str:
    """``2 March 2026``."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return f"{at.day} {at:%B %Y}"


def count(amount: float | None, one: str, many: str | None = None) -> str:
    """``1 topic``, ``3 topics``."""
    return f"{number(amount)} {one if amount == 1 else many or one + 's'}"
