"""What the audit's parts say without Spark: findings are counted, and nothing that can be written is unknown to it."""

import re
from pathlib import Path

from parley.core.events import EVENTS
from parley.hub.rules import idempotency
from parley.pipeline.audit.checks import CHECKS, OF_REASON
from parley.pipeline.audit.findings import SHOWN, Finding, merge, tell
from parley.pipeline.audit.keys import WRITTEN
from parley.pipeline.fold import REASONS


def test_many_differences_are_counted_and_the_first_are_listed() -> None:
    rows = [Finding("events.gap", "hub", "events", str(number), event_id=number) for number in range(SHOWN * 3 + 1)]
    told = [Finding(*row.values()) for batch in tell(iter(rows)) for row in batch.to_pylist()]
    assert len(told) == SHOWN + 1
    found = merge(told)
    assert found.totals == {("events.gap", "hub"): SHOWN * 3 + 1}
    assert [each.event_id for each in found.listed] == list(range(SHOWN))


def test_every_reason_of_the_fold_belongs_to_a_check() -> None:
    assert set(REASONS) == OF_REASON.keys()
    assert set(OF_REASON.values()) <= CHECKS.keys()


def test_every_operation_that_can_have_a_key_is_known() -> None:
    """The rules name the operation when they keep a key; one that writes no event is not held against the log."""
    rules = Path(idempotency.__file__).parent
    kept = {
        operation
        for path in rules.glob("*.py")
        for operation in re.findall(r'remember\(tx, once, "([a-z_.]+)"', path.read_text(encoding="utf-8"))
    }
    assert kept - {"task.renew", "lease.renew"} == WRITTEN.keys()
    assert {name for names in WRITTEN.values() for name in names} <= EVENTS.keys()
