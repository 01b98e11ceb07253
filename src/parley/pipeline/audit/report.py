"""What an audit says: a verdict for each check, with the differences explained in words.

As JSON a check has a ``name``, a ``verdict`` (``ok``, ``warn``, ``error``, or ``unknown`` where nothing was looked at)
and a ``message``, by which the report on a lake shows it, and beside them all that is known of its findings.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from parley.core.clock import iso
from parley.pipeline.audit.brokers.checks import BROKER_CHECKS
from parley.pipeline.audit.brokers.copies import BrokerCopy
from parley.pipeline.audit.brokers.run import BrokersAudited
from parley.pipeline.audit.checks import CHECKS, Check, Severity
from parley.pipeline.audit.copies import HubCopy
from parley.pipeline.audit.findings import Finding, Found, merge

Status = Literal["ok", "warn", "error", "unknown"]
_STATUS: Final[dict[Severity, Status]] = {"note": "warn", "damage": "error"}
OF_LAKE: Final = "bronze."
"""How the checks begin that need a lake."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check over all hubs or brokers. ``listed`` are the first findings of each; ``total`` counts all."""

    check: Check
    total: int
    listed: tuple[Finding, ...]
    looked: bool = True

    @property
    def status(self) -> Status:
        """``error`` for damage, ``warn`` for what is worth knowing, ``unknown`` where there was nothing to look at."""
        if not self.looked:
            return "unknown"
        return _STATUS[self.check.severity] if self.total else "ok"

    @property
    def message(self) -> str:
        """The verdict in words."""
        if not self.looked:
            return f"{self.check.sentence} There was no lake to look at."
        return f"Not so in {self.total:,} places: {self.check.sentence}" if self.total else self.check.sentence


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The verdicts of one audit, in the order of the checks."""

    at_ms: int
    hubs: tuple[HubCopy, ...]
    verdicts: tuple[Verdict, ...]
    brokers: tuple[BrokerCopy, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether any check found damage."""
        return any(verdict.status == "error" for verdict in self.verdicts)

    @property
    def verdict(self) -> str:
        """The whole of it in one line."""
        over = self._extent
        found = [verdict for verdict in self.verdicts if verdict.status == "error"]
        if not found:
            agree = "the log and the tables are the same" if self.hubs else "the tables agree"
            return f"clean: {over}, {agree}"
        return f"damage: {over}, {sum(verdict.total for verdict in found):,} differences by {len(found)} checks"

    @property
    def _extent(self) -> str:
        """How much was looked at."""
        said: list[str] = []
        if self.hubs or not self.brokers:
            events = sum(wanted.span for hub in self.hubs for wanted in hub.history)
            said.append(f"{len(self.hubs)} hub{'' if len(self.hubs) == 1 else 's'}, {events:,} events")
        if self.brokers:
            messages = sum(each.messages for each in self.brokers)
            many = "" if len(self.brokers) == 1 else "s"
            said.append(f"{len(self.brokers)} broker{many}, {messages:,} messages")
        return ", ".join(said)

    def summary(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "at": iso(self.at_ms),
            "damaged": self.damaged,
            "verdict": self.verdict,
            "hubs": [_hub(hub) for hub in self.hubs],
            "brokers": [_broker(each) for each in self.brokers],
            "checks": [self._verdict(verdict) for verdict in self.verdicts],
        }

    def explain(self, finding: Finding) -> str:
        """A finding as a sentence: where it is, what should be there and what is."""
        sources = {hub.db_id: hub.source for hub in self.hubs}
        sources |= {each.broker.broker_id: each.broker.source for each in self.brokers}
        source = sources[finding.db_id]
        where = " ".join(part for part in (finding.place, finding.id) if part)
        where += f", column {finding.column}" if finding.column else ""
        where += f" (event {finding.event_id})" if finding.event_id is not None and finding.place != "events" else ""
        expected = f" expected {finding.expected}" if finding.expected is not None else ""
        found = f" found {finding.found}" if finding.found is not None else ""
        return f"{source}: {where}:{expected}{',' if expected and found else ''}{found}"

    def _verdict(self, verdict: Verdict) -> dict[str, Any]:
        check = verdict.check
        return {
            "name": check.id,
            "verdict": verdict.status,
            "message": verdict.message,
            "total": verdict.total,
            "cause": check.cause if verdict.total else None,
            "remedy": check.remedy if verdict.total else None,
            "findings": [
                {
                    "db_id": each.db_id,
                    "place": each.place,
                    "id": each.id,
                    "column": each.column,
                    "event_id": each.event_id,
                    "expected": each.expected,
                    "found": each.found,
                    "explanation": self.explain(each),
                }
                for each in verdict.listed
            ],
        }


def judge(
    at_ms: int,
    copies: Sequence[HubCopy],
    parts: Iterable[Found],
    *,
    with_lake: bool,
    brokers: BrokersAudited | None = None,
) -> AuditReport:
    """One report of all that the searches have found."""
    brokers = brokers or BrokersAudited()
    found = [*parts, brokers.found]
    totals: dict[str, int] = {}
    for part in found:
        for (check, _), total in part.totals.items():
            totals[check] = totals.get(check, 0) + total
    listed = merge(each for part in found for each in part.listed).listed

    def verdict(check: Check, lake_seen: bool) -> Verdict:
        mine = tuple(each for each in listed if each.check == check.id)
        return Verdict(check, totals.get(check.id, 0), mine, lake_seen or not check.id.startswith(OF_LAKE))

    of_hubs = [verdict(check, with_lake) for check in CHECKS.values()] if copies or not brokers.copies else []
    of_brokers = [verdict(check, brokers.with_lake) for check in BROKER_CHECKS.values()] if brokers.copies else []
    return AuditReport(at_ms, tuple(copies), (*of_hubs, *of_brokers), brokers.copies)


def _broker(copy: BrokerCopy) -> dict[str, Any]:
    return {
        "broker_id": copy.broker.broker_id,
        "source": copy.broker.source,
        "epoch": copy.broker.epoch,
        "meshes": copy.meshes,
        "messages": copy.messages,
        "deliveries": copy.deliveries,
    }


def _hub(hub: HubCopy) -> dict[str, Any]:
    return {
        "db_id": hub.db_id,
        "source": hub.source,
        "events": sum(wanted.span for wanted in hub.history),
        "first_event_id": hub.begins_after + 1,
        "last_event_id": hub.bounds.hi,
        "archives": len(hub.archives),
    }
