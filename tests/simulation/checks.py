"""What must hold, as questions to the databases of all nodes.

*Always*, also while half of the world is down: what a program was promised is in the outbox; a row that is done is at
the broker and says the same; what the broker holds somebody asked for; a delivery that is done is in its recipient's
inbox; nothing is anywhere twice, nor where it does not belong.

*In the end*, when everything runs and nothing more is asked: every row is settled, as it had to be; every delivery is
done; every recipient has every message, in its own words. What changed while messages were on their way may have been
before or after for each of them; who was thrown out sends nothing more, and what nobody had got of it by then may
never come.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import apsw

from tests.simulation.ledger import Ledger
from tests.simulation.population import Population

_OUTBOX = (
    "SELECT client_message_id, mesh_id, destination_kind, destination_ref, status, broker_message_id,"
    " history_id, wire_fingerprint, last_error, superseded_by FROM outbox ORDER BY seq"
)
_INBOX = (
    "SELECT mesh_id, sender_id, recipient_id, client_message_id, broker_message_id, destination_kind, destination_ref,"
    " body FROM inbox ORDER BY seq"
)
_ACCEPTED = (
    "SELECT d.mesh_id, d.sender_id, d.client_message_id, d.broker_message_id, d.history_id, d.request_fingerprint,"
    " d.destination_kind, d.destination_ref, h.history_id, h.recipients, m.broker_message_id"
    " FROM client_message_dedupe AS d"
    " LEFT JOIN message_history AS h ON h.broker_message_id = d.broker_message_id"
    " LEFT JOIN message AS m ON m.broker_message_id = d.broker_message_id ORDER BY d.history_id"
)
_STRAY = (
    "SELECT broker_message_id FROM message_history UNION SELECT broker_message_id FROM message"
    " UNION SELECT broker_message_id FROM delivery_queue"
    " EXCEPT SELECT broker_message_id FROM client_message_dedupe ORDER BY 1"
)
_DELIVERIES = "SELECT broker_message_id, recipient_id, state, status FROM delivery_queue ORDER BY delivery_id"


@dataclass
class State:
    """What all nodes hold at one moment."""

    outbox: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    inbox: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    accepted: list[tuple[Any, ...]] = field(default_factory=list)
    stray: list[tuple[Any, ...]] = field(default_factory=list)
    deliveries: list[tuple[Any, ...]] = field(default_factory=list)

    def read_daemon(self, name: str, outbox: apsw.Connection, inbox: apsw.Connection) -> None:
        self.outbox[name] = outbox.execute(_OUTBOX).fetchall()
        self.inbox[name] = inbox.execute(_INBOX).fetchall()

    def read_broker(self, database: apsw.Connection) -> None:
        self.accepted = database.execute(_ACCEPTED).fetchall()
        self.stray = database.execute(_STRAY).fetchall()
        self.deliveries = database.execute(_DELIVERIES).fetchall()


class Judge:
    """Holds one state against what was asked."""

    def __init__(self, state: State, people: Population, ledger: Ledger) -> None:
        self.problems: list[str] = list(ledger.violations)
        self._state = state
        self._people = people
        self._ledger = ledger
        self._names = {each.member_id: each.display_name for each in people.members.values()}
        self._gone = {people.members[each].member_id for each in people.gone}
        self._ended = {row[3] for row in state.accepted if row[1] in self._gone}
        self._accepted = {(row[0], self._names.get(row[1]), row[2]): row for row in state.accepted}
        self._inboxes = {name: self._by_message(name, rows) for name, rows in state.inbox.items()}

    def always(self) -> list[str]:
        """What is wrong now, whatever else is going on."""
        self._broker_is_whole()
        self._promises_are_kept()
        for name, rows in self._state.outbox.items():
            for row in rows:
                self._row_is_true(name, row)
        self._deliveries_are_true()
        self._inboxes_hold_only_what_was_sent()
        return self.problems

    def in_the_end(self) -> list[str]:
        """What is wrong after everything has come to rest."""
        self.always()
        for name, rows in self._state.outbox.items():
            for row in rows:
                self._came_to_its_end(name, row)
        for broker_message_id, recipient, state, status in self._state.deliveries:
            ended = state == "dead" and (recipient in self._gone or broker_message_id in self._ended)
            if (state, status) != ("delivered", "stored") and not ended:
                self._wrong(f"delivery of {broker_message_id} to {self._names.get(recipient)} is {state} {status}")
        return self.problems

    def _wrong(self, what: str) -> None:
        self.problems.append(what)

    def _broker_is_whole(self) -> None:
        for (stray,) in self._state.stray:
            self._wrong(f"{stray} is at the broker without its id")
        twice = Counter(row[3] for row in self._state.accepted)
        for row in self._state.accepted:
            mesh_id, sender_id, client_id, broker_id, history_id, _, kind, ref, in_history, _, in_messages = row
            if in_history != history_id or in_messages is None or twice[broker_id] > 1:
                self._wrong(f"{client_id} is not whole at the broker")
            asked = self._ledger.asked.get((self._names.get(sender_id, ""), client_id))
            if asked is None or (asked.mesh_id, asked.kind, asked.ref) != (mesh_id, kind, ref):
                self._wrong(f"the broker holds {client_id} of {self._names.get(sender_id)}, which nobody asked for")
            last = self._people.gone.get((mesh_id, self._names.get(sender_id, "")))
            if last is not None and history_id > last:
                self._wrong(f"the broker took {client_id} of {self._names[sender_id]}, who had been thrown out")
        self._each_recipient_has_its_delivery()

    def _each_recipient_has_its_delivery(self) -> None:
        queued: dict[str, list[str]] = {}
        for broker_message_id, recipient, _, _ in self._state.deliveries:
            queued.setdefault(broker_message_id, []).append(self._names.get(recipient) or recipient)
        for mesh_id, sender_id, client_id, broker_id, _, _, kind, ref, *_ in self._state.accepted:
            sender, found = self._names.get(sender_id, ""), queued.get(broker_id, [])
            expected = self._people.recipients(mesh_id, sender, kind, ref)
            may_be = self._people.uncertain(mesh_id, sender)
            as_it_should = set(expected or ()) - may_be == set(found) - may_be and len(found) == len(set(found))
            if not (as_it_should and self._people.may_be_taken(mesh_id, sender, kind, ref)):
                self._wrong(f"{client_id} is queued for {queued.get(broker_id)} and not for {expected}")

    def _promises_are_kept(self) -> None:
        for name in self._state.outbox:
            rows = {row[0] for row in self._state.outbox[name]}
            for message in self._ledger.of(name):
                if message.promised and message.client_message_id not in rows:
                    self._wrong(f"{name} promised {message.client_message_id} and does not have it")

    def _row_is_true(self, name: str, row: tuple[Any, ...]) -> None:
        client_id, mesh_id, kind, ref, status, broker_id, history_id, fingerprint, error, _ = row
        asked = self._ledger.asked.get((name, client_id))
        if asked is None or (asked.mesh_id, asked.kind, asked.ref) != (mesh_id, kind, ref):
            self._wrong(f"{name} would send {client_id} to {kind} {ref}, which nobody asked for")
            return
        found = self._accepted.get((mesh_id, name, client_id))
        if status == "done" and (found is None or found[3:6] != (broker_id, history_id, fingerprint)):
            self._wrong(f"{name} says that {client_id} is done as {broker_id}, the broker has {found and found[3]}")
        if status == "dead" and found is not None and (mesh_id, name) not in self._people.gone:
            self._wrong(f"{name} says that {client_id} is dead ({error}), the broker has it")
        if status == "dead" and not self._people.may_be_refused(mesh_id, name, kind, ref):
            self._wrong(f"{name} gave {client_id} up ({error}) although it could be delivered")

    def _deliveries_are_true(self) -> None:
        for broker_message_id, recipient, state, _ in self._state.deliveries:
            name = self._names.get(recipient, recipient)
            if state == "delivered" and name in self._inboxes and broker_message_id not in self._inboxes[name]:
                self._wrong(f"{broker_message_id} is delivered to {name}, who does not have it")

    def _by_message(self, name: str, rows: list[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        found: dict[str, tuple[Any, ...]] = {}
        for row in rows:
            if row[4] in found:
                self._wrong(f"{name} has {row[4]} twice")
            found[row[4]] = row
        return found

    def _inboxes_hold_only_what_was_sent(self) -> None:
        for name, rows in self._state.inbox.items():
            for mesh_id, sender_id, recipient_id, client_id, broker_id, kind, ref, body in rows:
                sender = self._names.get(sender_id, "")
                found = self._accepted.get((mesh_id, sender, client_id))
                asked = self._ledger.asked.get((sender, client_id))
                if found is None or found[3] != broker_id or asked is None:
                    self._wrong(f"{name} got {client_id} of {sender}, which the broker does not have")
                elif (self._names.get(recipient_id), kind, ref, body) != (name, asked.kind, asked.ref, asked.text):
                    self._wrong(f"{name} got {client_id} of {sender} changed: {body!r}")

    def _came_to_its_end(self, name: str, row: tuple[Any, ...]) -> None:
        client_id, mesh_id, kind, ref, status, _, _, _, error, _ = row
        people, sender = self._people, (mesh_id, name)
        asked = self._ledger.asked.get((name, client_id))
        ends = {
            "done": people.may_be_taken(mesh_id, name, kind, ref),
            "dead": people.may_be_refused(mesh_id, name, kind, ref),
            "aborted": asked is not None and asked.requeued,
        }
        if not ends.get(status, sender in people.gone):
            self._wrong(f"{name} left {client_id} {status} ({error})")
        accepted = self._accepted.get((mesh_id, name, client_id))
        for each in set(people.recipients(mesh_id, name, kind, ref) or ()) - people.uncertain(mesh_id, name):
            if accepted is not None and accepted[3] not in self._inboxes[each] and sender not in people.gone:
                self._wrong(f"{each} never got {client_id} of {name}")
