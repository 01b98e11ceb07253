"""The orphan check: whether the tables still say of every message the same thing."""

from typing import Final, NamedTuple

from parley.broker.tx import Tx
from parley.core.orphans import CHECKS

_SHOWN_MAX: Final = 20


class Finding(NamedTuple):
    """What one check found: how many times, and the first few."""

    check: str
    meaning: str
    times: int
    examples: tuple[tuple[str, str], ...]


def find_orphans(tx: Tx) -> list[Finding]:
    """All findings, of the checks that found something."""
    findings: list[Finding] = []
    for name, check in CHECKS.items():
        rows = tx.all(check.sql)
        if rows:
            shown = tuple((str(mesh), str(message)) for mesh, message in rows[:_SHOWN_MAX])
            findings.append(Finding(name, check.meaning, len(rows), shown))
    return findings
