"""Looking into one moment of a broker: every question that its own tables answer."""

from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from typing import Final, NamedTuple

import apsw

from parley.core.hash_chain import Entry, first_misfit
from parley.core.orphans import CHECKS as ORPHANS
from parley.pipeline.audit.brokers.checks import PLACES
from parley.pipeline.audit.brokers.copies import Moment
from parley.pipeline.audit.findings import Finding
from parley.pipeline.brokers.reading import quoted
from parley.sqlite import foreign_key_check, open_reader

KEPT_DAYS_MIN: Final = 7
"""No broker forgets an id sooner, so what is younger and not known was removed."""
DAY_MS: Final = 24 * 3600 * 1000


class Question(NamedTuple):
    """The table that a finding is shown in, and the query that gives its mesh and message."""

    place: str
    sql: str


_QUESTIONS: Final[dict[str, Question]] = {
    "broker.id_differs": Question(
        "client_message_dedupe",
        "SELECT h.mesh_id, h.broker_message_id FROM message_history AS h JOIN client_message_dedupe AS d"
        " ON d.broker_message_id = h.broker_message_id WHERE d.destination_kind <> h.kind"
        " OR d.destination_ref <> h.ref OR d.first_seen_ms <> h.accepted_ms OR d.mesh_id <> h.mesh_id",
    ),
    "broker.sender_is_stranger": Question(
        "message_history",
        "SELECT h.mesh_id, h.broker_message_id FROM message_history AS h WHERE NOT EXISTS"
        " (SELECT 1 FROM member AS m WHERE m.member_id = h.sender_id AND m.mesh_id = h.mesh_id)",
    ),
    "broker.clock": Question(
        "message_history",
        "SELECT mesh_id, broker_message_id FROM (SELECT mesh_id, broker_message_id, accepted_ms,"
        " lag(accepted_ms) OVER (PARTITION BY mesh_id ORDER BY history_id) AS before FROM message_history) AS numbered"
        " WHERE accepted_ms < before",
    ),
    "broker.delivery_state": Question(
        "delivery_queue",
        "SELECT d.mesh_id, d.broker_message_id FROM delivery_queue AS d"
        " WHERE d.state NOT IN ('queued', 'leased', 'delivered', 'dead')"
        " OR (d.state = 'leased') <> (d.leased_by IS NOT NULL)"
        " OR (d.state = 'leased') <> (d.lease_until_ms IS NOT NULL)"
        " OR (d.state = 'delivered') <> (d.status IS NOT NULL) OR (d.state = 'dead') <> (d.reason IS NOT NULL)"
        " OR (d.state IN ('delivered', 'dead')) <> (d.settled_ms IS NOT NULL)",
    ),
    "broker.delivered_without_attempt": Question(
        "delivery_queue",
        "SELECT d.mesh_id, d.broker_message_id FROM delivery_queue AS d WHERE d.state = 'delivered' AND d.attempts = 0",
    ),
}
_ORDER: Final = (
    "SELECT mesh_id, broker_message_id, history_id, before FROM (SELECT mesh_id, broker_message_id, history_id,"
    " lag(broker_message_id) OVER (ORDER BY history_id) AS before FROM message_history) AS numbered"
    " WHERE broker_message_id <= before"
)
# A removed message is known by its id as long as that is kept; the first number follows what was before any mesh.
_NUMBERS: Final = (
    "SELECT history_id AS number, accepted_ms AS at_ms FROM message_history UNION"
    " SELECT history_id, first_seen_ms FROM client_message_dedupe WHERE history_available = 0 UNION"
    " SELECT 0, coalesce(min(created_ms), 0) FROM mesh"
)
_GAPS: Final = (
    "SELECT before + 1, number - 1 FROM (SELECT number, lag(number) OVER (ORDER BY number) AS before,"
    f" lag(at_ms) OVER (ORDER BY number) AS before_ms FROM ({_NUMBERS}) AS known) AS followed"
    " WHERE number > before + 1 AND before_ms > {young}"
)
_TAIL: Final = (
    f"SELECT last.number + 1, s.seq FROM (SELECT number, at_ms FROM ({_NUMBERS}) AS known ORDER BY number DESC LIMIT 1)"
    " AS last, sqlite_sequence AS s WHERE s.name = 'message_history' AND s.seq > last.number AND last.at_ms > {young}"
)
_AUDIT: Final = (
    "SELECT mesh_id, number, at_ms, event, actor, payload, previous, hash FROM audit ORDER BY mesh_id, number"
)


def look_into(moment: Moment, now_ms: int) -> Iterator[Finding]:
    """All that is wrong with the broker's own tables. A file that is torn is looked at as far as it can be read."""
    try:
        yield from _file_findings(moment)
        yield from _table_findings(moment)
        yield from _chain_findings(moment)
        if moment.untouched:
            yield from _number_findings(moment, now_ms - KEPT_DAYS_MIN * DAY_MS)
    except (apsw.CorruptError, apsw.NotADBError):
        return  # the first check has said so


def _file_findings(moment: Moment) -> Iterator[Finding]:
    for problem in moment.problems:
        yield _finding(moment, "broker.integrity", "file", None, found=problem)
    if moment.file is not None:
        with closing(open_reader(moment.file)) as reader:
            for each in foreign_key_check(reader):
                said = f"row {each.rowid}" if each.rowid is not None else None
                yield _finding(moment, "broker.references", each.table, said, found=f"no such row in {each.parent}")


def _table_findings(moment: Moment) -> Iterator[Finding]:
    for name, orphan in ORPHANS.items():
        check = f"broker.{name}"
        for mesh_id, message_id in moment.store.rows(orphan.sql):
            yield _finding(moment, check, PLACES[check], message_id, found=f"{orphan.meaning}, in mesh {mesh_id}")
    for check, asked in _QUESTIONS.items():
        for mesh_id, message_id in moment.store.rows(asked.sql):
            yield _finding(moment, check, asked.place, message_id, found=f"mesh {mesh_id}")


def _number_findings(moment: Moment, young_ms: int) -> Iterator[Finding]:
    for question in (_GAPS, _TAIL):
        for first, last in moment.store.rows(question.format(young=young_ms)):
            said = f"number {first}" if first == last else f"numbers {first} to {last}"
            yield _finding(moment, "broker.gap", "message_history", str(first), expected=said, found="nothing")
    for mesh_id, message_id, number, before in moment.store.rows(_ORDER):
        said = f"number {number} in mesh {mesh_id}"
        yield _finding(moment, "broker.order", "message_history", message_id, expected=f"after {before}", found=said)


def _chain_findings(moment: Moment) -> Iterator[Finding]:
    slugs = dict(moment.store.rows("SELECT mesh_id, slug FROM mesh"))
    rows = moment.store.rows(_AUDIT)
    for mesh_id, entries in groupby(rows, key=lambda row: row[0]):
        number = first_misfit(str(mesh_id), (Entry(*entry[1:]) for entry in entries))
        if number is not None:
            said = f"the chain breaks at entry {number} of mesh {slugs.get(mesh_id, mesh_id)}"
            yield _finding(moment, "broker.audit_chain", "audit", f"{mesh_id} {number}", found=said)


def _finding(
    moment: Moment, check: str, place: str, id: object, *, expected: str | None = None, found: str | None = None
) -> Finding:
    named = None if id is None else str(id)
    return Finding(check, moment.broker.broker_id, place, named, expected=expected, found=found)


def removed_by_the_broker(moment: Moment, message_ids: list[str], young_ms: int, ages: dict[str, int]) -> set[str]:
    """Those of these messages that the broker says it removed, or whose ids it may have forgotten by now."""
    asked = ", ".join(quoted(each) for each in message_ids)
    rows = moment.store.rows(
        f"SELECT broker_message_id, history_available FROM client_message_dedupe WHERE broker_message_id IN ({asked})"
    )
    known = {str(message_id): bool(available) for message_id, available in rows}
    return {each for each in message_ids if not known.get(each, ages[each] > young_ms)}
