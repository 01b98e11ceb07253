"""The audit of brokers from end to end."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from parley.pipeline.audit.brokers.bronze import bronze_findings
from parley.pipeline.audit.brokers.copies import BrokerCopy, Moment, one_moment
from parley.pipeline.audit.brokers.store_checks import look_into
from parley.pipeline.audit.findings import SHOWN, Finding, Found, merge
from parley.pipeline.brokers.stores import BrokerRef
from parley.pipeline.lake.place import Lake
from parley.pipeline.progress import Progress


class BrokersAudited(NamedTuple):
    """What was looked at, and what was found."""

    copies: tuple[BrokerCopy, ...] = ()
    found: Found = Found([], {})
    with_lake: bool = False


def audit_brokers(brokers: Sequence[BrokerRef], lake: Lake | None, now_ms: int, progress: Progress) -> BrokersAudited:
    """Looks at one moment of each broker, and at what bronze holds of it if there is a lake."""
    copies: list[BrokerCopy] = []
    findings: list[Finding] = []
    with_lake = False
    for broker in brokers:
        with progress.stage(f"broker {broker.source}"), one_moment(broker, lake) as moment:
            findings += _first(_all_findings(moment, lake, now_ms))
            copies.append(moment.counted())
            with_lake = with_lake or moment.held_at is not None
    return BrokersAudited(tuple(copies), merge(findings), with_lake)


def _all_findings(moment: Moment, lake: Lake | None, now_ms: int) -> Iterator[Finding]:
    yield from look_into(moment, now_ms)
    if lake is not None and moment.held_at is not None and not moment.torn:
        yield from bronze_findings(lake, moment, now_ms)


def _first(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first of each check, and one that stands for the others, so that any number of them is held."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in findings:
        seen[each.check, each.db_id] += 1
        if seen[each.check, each.db_id] <= SHOWN:
            yield each
    for (check, db_id), count in seen.items():
        if count > SHOWN:
            yield Finding(check, db_id, "", times=count - SHOWN)
